// AsideFiles are what an unreadable index left behind: `index.bad-*` and segments renamed `*.old`,
// kept for recovery until their space is needed.
//
// Threads: the writer's after opening. The files count against the disk budget.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "kvstrata/result.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

inline constexpr std::string_view bad_index_prefix = "index.bad-";

class AsideFiles {
 public:
  /// Finds them in a store's directory; oldest first.
  static AsideFiles scan(const std::string& directory);

  std::uint64_t bytes() const { return bytes_; }
  bool empty() const { return files_.empty(); }
  /// Removes the oldest to make room.
  void remove_oldest();

 private:
  struct File {
    std::string path;
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;  ///< since 1970
  };
  std::deque<File> files_;
  std::uint64_t bytes_ = 0;
};

/// Moves `index` to `index.bad-<unix_ms>` and renames all segment files to `*.old`; returns where
/// the index went.
Result<std::string> set_store_aside(const std::string& directory, std::uint64_t unix_ms);

/// One more than the highest id of a segment file, old ones included; names are never used twice.
std::uint32_t first_unused_segment(const std::string& directory);

}  // namespace kvstrata::storage
