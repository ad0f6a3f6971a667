// Reading and writing blocks of 1 MiB at full pace, against fio on the same files or their like.
#pragma once

#include <string>

#include "bench/common/figures.h"

namespace kvstrata::bench {

struct TransferPlan {
  std::string scratch;           ///< a directory on the disk that is measured
  std::uint64_t segments = 18;   ///< of 256 MiB: the data set and one being emptied
  std::size_t rounds = 15;       ///< in which every mover has one turn
  double seconds = 2;            ///< a turn
  double null_tolerance = 0.05;  ///< by which fio may differ from itself
  bool reads = true, writes = true;
};

/// nvme_read_vs_fio, read_cpu_vs_fio, nvme_write_vs_fio, and what is printed beside them. False
/// if the machine was too restless for the figures to mean anything.
bool bench_transfers(const TransferPlan& plan, Figures& figures);

}  // namespace kvstrata::bench
