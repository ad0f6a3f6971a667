// How long a store with millions of blocks takes from nothing to its first answers.
#pragma once

#include <cstdint>
#include <string>

#include "bench/common/figures.h"

namespace kvstrata::bench {

struct StartPlan {
  std::string scratch;
  std::uint64_t blocks = 2'000'000;
};

/// start_2m_s: from a cold page cache, opening the store, one block read and checked, and one put
/// durable; the slowest of five starts.
void bench_start(const StartPlan& plan, Figures& figures);

}  // namespace kvstrata::bench
