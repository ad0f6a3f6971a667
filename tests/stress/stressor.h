// The Stressor runs actors against an in-process daemon for a while and counts what was impossible.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "actor.h"

namespace kvstrata::test {

struct StressOptions {
  std::chrono::milliseconds duration{3'000};
  std::uint64_t seed = 0;
  std::size_t actors = 6;
  std::string admission = "all";  ///< as in the daemon's configuration
};

struct StressFigures {
  double minutes = 0;
  ActorCounts counts;
  std::uint64_t damaged = 0;  ///< records and blocks the daemon found corrupt: impossible, too
  std::uint64_t reclaimed_segments = 0;
  std::uint64_t evicted_blocks = 0;
  std::array<std::int64_t, 5> resident_bytes{};  ///< private memory after each fifth of the time

  std::uint64_t impossible_reads() const { return counts.impossible_reads + damaged; }
  std::string json(std::uint64_t seed) const;
};

StressFigures stress(const StressOptions& options);

}  // namespace kvstrata::test
