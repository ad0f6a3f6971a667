// The static codec on blocks of a real model: how small, and how fast beside its peers and memcpy.
#pragma once

#include "bench/codec/kv_blocks.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

struct StaticPlan {
  std::size_t rounds = 31;
  std::uint64_t far_bytes = std::uint64_t{1} << 30;  ///< decoded, so that no cache holds it
};

/// Bits a scalar of `test`, headers and directory counted, with tables fitted on some of `fit`.
double static_bits(const KvBlocks& fit, const KvBlocks& test);

void bench_static_size(const KvBlocks& fit, const KvBlocks& test, Figures& figures);
void bench_static_pace(const KvBlocks& fit, const KvBlocks& test, const StaticPlan& plan,
                       Figures& figures);

}  // namespace kvstrata::bench
