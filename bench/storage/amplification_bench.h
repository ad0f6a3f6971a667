// How much is written to the device for what is appended: records, index, moves of reclaim.
#pragma once

#include <cstdint>
#include <string>

#include "bench/common/figures.h"

namespace kvstrata::bench {

struct AmplificationPlan {
  std::string scratch;
  std::uint64_t fills = 10;  ///< so often the store's budget is appended
};

/// write_amplification of a load in which nothing is wanted again, and write_amplification_skewed
/// of one in which what is wanted follows Zipf's law. The kernel's count of what this process wrote
/// (/proc/self/io) is divided by the payload bytes of the appends.
void bench_amplification(const AmplificationPlan& plan, Figures& figures);

}  // namespace kvstrata::bench
