// Recovery brings back what an index that could not be opened left behind: the segments beside it
// ("*.seg.old") are scanned, and every whole block that the store does not have is appended to it
// again. Offline: it owns the store while it runs.
//
// What can't be known without the old index: blocks removed since their segment was last emptied
// come back, pins and expiries are those of when a block was written, and so is the weight epoch of
// a model, unless a namespace was registered after it rose.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "storage/store.h"

namespace kvstrata::storage {

struct RecoveryReport {
  std::uint64_t segments = 0;          ///< put aside, of this store
  std::uint64_t foreign_segments = 0;  ///< named like one, but none of this store
  std::uint64_t records = 0;           ///< found in them
  std::uint64_t damaged_pages = 0;     ///< begin like a record and are none
  std::uint64_t unreadable_pages = 0;
  std::uint64_t recovered_blocks = 0, recovered_bytes = 0;  ///< bytes of frames
  // Blocks that were found and not brought back, by reason.
  std::uint64_t present = 0;  ///< the store has the key
  std::uint64_t expired = 0;
  std::uint64_t outdated = 0;    ///< of an earlier weight epoch
  std::uint64_t nameless = 0;    ///< their namespace was not found
  std::uint64_t incomplete = 0;  ///< an extent or their codec tables are missing
  std::uint64_t damaged = 0;     ///< their frame's checksum differs
  std::uint64_t refused = 0;     ///< the store had no room
};

/// `done` of `total` bytes or blocks of a phase.
using RecoveryProgress =
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)>;

/// Recovers into the store of `options`, then removes what lay aside (kept if parts could not be
/// read or did not fit). `locked` while a daemon has the store.
Result<RecoveryReport> recover_store(StoreOptions options, const RecoveryProgress& progress);

}  // namespace kvstrata::storage
