// A Readmission decides whether a disk that failed may take blocks again. Between the failure and
// now it may have been pulled, mounted anew, rolled back or replaced by an empty mount point, so it
// must be the same store in the same place, and give back bytes that were written to it and synced.
//
// Threads: the writer's.
#pragma once

#include <vector>

#include "storage/index_entry.h"
#include "storage/io_queue.h"
#include "storage/record_read.h"
#include "storage/segment_files.h"
#include "storage/store_state.h"

namespace kvstrata::storage {

class Readmission {
 public:
  Readmission(StoreState& state, IoQueue& io, SegmentFiles& files)
      : state_(state), io_(io), files_(files) {}

  /// ok, or why the disk stays out: `unavailable`, or the error of a read if none went well.
  Status check();

 private:
  using Sample = std::pair<BlockKey, IndexEntry>;
  /// unknown: removed meanwhile, its file gone, or no memory to look; says nothing of the disk.
  enum class Finding { intact, wrong, unknown };

  Status check_content();
  Error lost_content() const;
  std::vector<SegmentTable::Row> newest_segments() const;
  Result<std::vector<Sample>> samples_of(const SegmentTable::Row& row) const;
  Result<Finding> look_at(const Sample& sample);
  Result<bool> fetch(const RecordRead& read);

  StoreState& state_;
  IoQueue& io_;
  SegmentFiles& files_;
};

}  // namespace kvstrata::storage
