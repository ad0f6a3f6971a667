// An OldSegment is a segment whose index is lost, opened for recovery. It stays readable when its
// file is renamed ("00000042.seg.old") or removed meanwhile.
//
// Threads: used by one thread.
#pragma once

#include <string>

#include "storage/recovery/segment_scan.h"
#include "storage/store_directory.h"

namespace kvstrata::storage {

class OldSegment {
 public:
  /// `corrupt` if it has no superblock.
  static Result<OldSegment> open(const std::string& path);

  SegmentId id() const { return {superblock_.segment}; }
  const StoreId& store() const { return superblock_.store; }
  std::uint64_t bytes() const { return bytes_; }
  ScanCounts scan(const RecordVisitor& visit) const;
  bool read(std::uint64_t offset, MutableBytes out) const;

 private:
  explicit OldSegment(OwnedFd file) : file_(std::move(file)) {}

  OwnedFd file_;
  std::uint64_t bytes_ = 0;
  Superblock superblock_{};
};

}  // namespace kvstrata::storage
