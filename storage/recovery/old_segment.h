// An OldSegment is a segment that lost its index ("00000042.seg.old"), opened for recovery. It
// stays readable when its name is removed meanwhile.
//
// Threads: used by one thread.
#pragma once

#include <string>

#include "storage/recovery/segment_scan.h"
#include "storage/store_directory.h"

namespace kvstrata::storage {

class OldSegment {
 public:
  /// `corrupt` if it has no superblock of a segment of the store with this id.
  static Result<OldSegment> open(const std::string& path, std::string_view store_id_hex);

  SegmentId id() const { return {superblock_.segment}; }
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  ScanCounts scan(const RecordVisitor& visit) const;
  bool read(std::uint64_t offset, MutableBytes out) const;

 private:
  OldSegment(std::string path, OwnedFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  OwnedFd file_;
  std::uint64_t bytes_ = 0;
  Superblock superblock_{};
};

}  // namespace kvstrata::storage
