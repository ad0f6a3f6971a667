// SegmentFiles opens the files of segments on one Device and keeps a bounded number open.
//
// Threads: one, the Device's. Lifetime: all files are closed at destruction; none may have a
// request in flight then.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "kvstrata/id.h"
#include "storage/device/device.h"

namespace kvstrata::storage {

class SegmentFiles {
 public:
  SegmentFiles(Device& device, std::size_t open_max) : device_(device), open_max_(open_max) {}
  ~SegmentFiles();

  /// The open file of a segment, `not_found` if it is gone. A file beyond the bound closes the one
  /// unused for longest; files that are `in_use` stay.
  Result<FileHandle> open(SegmentId segment);
  /// Whether the file is gone, or ends before `end_bytes`: what lay there is lost for good.
  bool is_lost(SegmentId segment, std::uint64_t end_bytes);
  /// A new file of `bytes`, backed by space; nothing is left of it after an error.
  Result<FileHandle> create(SegmentId segment, std::uint64_t bytes);
  /// Closes (if open) and removes the file for good: no crash brings it back. A file that is gone
  /// already is fine.
  Status remove(SegmentId segment);
  /// Closes the file unless a request uses it; true if it is not open now.
  bool close(SegmentId segment);

  /// Counts requests on a segment's file, so that it stays open.
  void begin_use(SegmentId segment);
  void end_use(SegmentId segment);

 private:
  struct OpenFile {
    FileHandle handle;
    std::uint64_t last_use = 0;
    std::size_t in_use = 0;
  };

  void make_room();
  FileHandle remember(SegmentId segment, FileHandle handle);

  Device& device_;
  const std::size_t open_max_;
  std::unordered_map<SegmentId, OpenFile> files_;
  std::uint64_t uses_ = 0;
};

}  // namespace kvstrata::storage
