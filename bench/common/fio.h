// fio, the peer: what the machine's disk gives a program that does nothing but move bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/common/disk_rate.h"

namespace kvstrata::bench {

/// One fio run with io_uring, O_DIRECT and 16 requests of 1 MiB in flight.
struct FioJob {
  std::string operation;           ///< "randread" or "write"
  std::vector<std::string> files;  ///< that exist and were written
  std::uint64_t bytes_a_file = 0;  ///< only the first so many of each are used
  double seconds = 2;
  std::uint64_t sync_bytes = 0;  ///< fdatasync after so many written bytes; 0: never
};

inline constexpr unsigned io_depth = 16;
inline constexpr std::uint64_t io_bytes = std::uint64_t{1} << 20;

/// Exits the benchmark with a message where fio can't run. Writes its job file into `scratch`.
DiskRate run_fio(const FioJob& job, const std::string& scratch);

}  // namespace kvstrata::bench
