// The linear codec on blocks of a real model: how small, at what cost.
#pragma once

#include "bench/codec/kv_blocks.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

/// Blocks of text of another kind: program code.
struct CodeBlocks {
  KvBlocks fit, test;
};

/// Fits several times, on the first 24,576 tokens of `fit` or on all, which takes minutes. Without
/// `code` nothing is said of mixed traffic.
void bench_linear(const KvBlocks& fit, const KvBlocks& test, const CodeBlocks* code,
                  Figures& figures);

}  // namespace kvstrata::bench
