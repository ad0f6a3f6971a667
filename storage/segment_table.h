// A SegmentTable is the store's list of segments in memory: the rows of the index, and how many
// reads use each segment right now. Reuse of a segment waits until that count is zero.
//
// Threads: safe from any; one small lock. Rows change only under the store's mutation lock, after
// the index has them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kvstrata/id.h"
#include "storage/index/segment_value.h"

namespace kvstrata::storage {

struct SegmentTotals {
  std::uint64_t segments = 0, free = 0, lost = 0;
  std::uint64_t bytes = 0;  ///< of files
  std::uint64_t live_blocks = 0, live_bytes = 0;
};

class SegmentTable {
 public:
  using Row = std::pair<SegmentId, SegmentValue>;

  /// Replaces all rows; counts of reads stay.
  void load(const std::vector<Row>& rows);
  void set(SegmentId segment, const SegmentValue& value);
  void erase(SegmentId segment);
  std::optional<SegmentValue> find(SegmentId segment) const;
  std::vector<Row> rows() const;
  SegmentTotals totals() const;

  /// Counts a read of content of this generation; false if the segment has another one now.
  bool pin(SegmentId segment, std::uint32_t generation);
  void unpin(SegmentId segment);
  bool pinned(SegmentId segment) const;
  /// Returns when no read uses the segment. New ones can't begin: its generation changed before.
  void wait_unpinned(SegmentId segment) const;

  /// The free segment to reuse next: one without reads, if there is one.
  std::optional<SegmentId> next_free() const;
  /// What to empty next: a lost segment, else a sealed one without live bytes, else the oldest
  /// sealed one for which `skip` is false.
  std::optional<SegmentId> next_victim(const std::function<bool(SegmentId)>& skip) const;

 private:
  struct Slot {
    SegmentValue value;
    std::uint64_t readers = 0;
    bool known = false;  // false: erased, kept for its readers
  };

  mutable std::mutex mutex_;
  mutable std::condition_variable unpinned_;
  std::map<SegmentId, Slot> slots_;
};

}  // namespace kvstrata::storage
