// A segment scan finds the records of a segment without an index, as doc/segment-format.md
// describes under "Reading and recovery". It trusts nothing it reads.
//
// Threads: stateless.
#pragma once

#include <cstdint>
#include <functional>

#include "storage/segment/record.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

/// Reads `out.size()` bytes at `offset` of the segment; false where they can't be read.
using SegmentReader = std::function<bool(std::uint64_t offset, MutableBytes out)>;
/// Head and identity of a record of the segment's present content. The identity is good during the
/// call.
using RecordVisitor = std::function<void(const RecordHead& head)>;

struct ScanCounts {
  std::uint64_t records = 0;
  std::uint64_t damaged = 0;     ///< pages that begin as a record and are none
  std::uint64_t unreadable = 0;  ///< pages that could not be read
};

/// Visits the records of a segment of `segment_bytes`, in order of their place. Heads are checked,
/// frames are not.
ScanCounts scan_segment(const Superblock& superblock, std::uint64_t segment_bytes,
                        const SegmentReader& read, const RecordVisitor& visit);

}  // namespace kvstrata::storage
