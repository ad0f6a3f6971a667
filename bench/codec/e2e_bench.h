// Blocks that lie compressed on disk, through the daemon to a client, against the disk's own rate.
#pragma once

#include <string>

#include "bench/codec/kv_blocks.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

struct EndToEndPlan {
  std::string daemon = "kvstratad";
  std::string directory;  ///< on the disk to measure, with 4 GiB free
  std::size_t sequences = 28;
  std::size_t rounds = 7;
  double seconds = 2;
};

/// Stores the blocks again and again under other tokens, many times what the daemon holds in
/// memory, and reads whole sequences of 16 by two clients in turn with fio on the same files.
void bench_end_to_end(const KvBlocks& blocks, const EndToEndPlan& plan, Figures& figures);

}  // namespace kvstrata::bench
