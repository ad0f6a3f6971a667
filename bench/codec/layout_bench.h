// The static codec on one model's KV in the layouts that engines use: what a layout costs.
#pragma once

#include "bench/codec/kv_blocks.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

/// Encodes and decodes the first layers of `test` in each layout, all in turn in each of `rounds`
/// rounds. Both are blocks in transformers' layout.
void bench_layouts(const KvBlocks& fit, const KvBlocks& test, std::size_t rounds, Figures& figures);

}  // namespace kvstrata::bench
