// run_watched(): runs numbered jobs in a child process, so that one that crashes or hangs is told
// and the others still run.
//
// Threads: call it before any other thread is started.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvstrata::simulation {

struct Watched {
  std::uint64_t done = 0, crashes = 0, hangs = 0;
};

/// `job(i)` runs in the child and returns one line; `told(i, line)` runs here and returns false to
/// stop. `lost(i, why)` tells of a job that crashed, or did not end for `patience_ms`.
struct Jobs {
  std::function<std::string(std::uint64_t)> job;
  std::function<bool(std::uint64_t, const std::string&)> told;
  std::function<bool(std::uint64_t, const std::string&)> lost;
};
Watched run_watched(std::uint64_t count, int patience_ms, const Jobs& jobs);

}  // namespace kvstrata::simulation
