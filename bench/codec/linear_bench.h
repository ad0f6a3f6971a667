// The linear codec on blocks of a real model: how small, at what cost.
#pragma once

#include "bench/codec/kv_blocks.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

/// Fits on all of `fit`, which takes minutes. `rope_theta` is that of the model.
void bench_linear(const KvBlocks& fit, const KvBlocks& test, double rope_theta, Figures& figures);

}  // namespace kvstrata::bench
