// A SegmentLog decides where the next record goes: it fills the open segment, seals it, and opens
// the next one, within the disk budget. It knows what the index does not know yet; record() tells.
//
// Threads: the writer's. Lifetime: within its Device's and IoQueue's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "storage/append_queue.h"
#include "storage/aside_files.h"
#include "storage/index_change.h"
#include "storage/io_queue.h"
#include "storage/segment_files.h"

namespace kvstrata::storage {

class SegmentLog {
 public:
  struct Place {
    RecordLocation where;
    FileHandle file;
  };

  SegmentLog(StoreState& state, Device& device, IoQueue& io, AsideFiles aside);

  /// Goes on in the segment that was open when the store closed, if its file is as it should be;
  /// otherwise it counts as sealed.
  void resume(SegmentId segment, const SegmentValue& row);

  /// Room for a record, in a new segment if need be (without reclaim). `out_of_space` if none can
  /// be opened.
  Result<Place> place(std::uint64_t record_bytes);
  /// How many segments an append would open, and how many can be opened without reclaim.
  std::uint64_t segments_needed(const Append& append) const;
  std::uint64_t openable();
  /// The segment that is being filled, and what is left of it; 0 if there is none.
  std::optional<SegmentId> open_segment_id() const { return open_; }
  std::uint64_t room_bytes() const;
  bool over_budget();
  /// Deletes the oldest file that lies aside; false if none does.
  bool remove_aside();

  /// Whether the index doesn't know yet what was done to this segment, or it is the open one.
  bool active(SegmentId segment) const { return active_.contains(segment); }
  /// From here to committed() or abandon(), what was written so far is being made known to the
  /// index; what is written meanwhile waits for the next time.
  void begin_commit();
  /// Segments with writes that are being made known, and their files; to be synced.
  std::vector<std::pair<SegmentId, FileHandle>> unsynced() const;
  /// A write failed: nothing more is appended to this segment.
  void seal(SegmentId segment, const Status& error);
  /// A sync failed: nothing in this segment is certain any more.
  void condemn(SegmentId segment);
  /// Why records of this group in this segment don't count; ok() if they do.
  Status error_of(SegmentId segment) const;

  /// Adds the rows as they were at begin_commit() to a change; committed() when it was written.
  void record(IndexChange& change) const;
  void committed();
  /// The change was not written: what was appended since the last one is given up, also what came
  /// after begin_commit(). Nothing of it may be in flight.
  void abandon();

  SegmentFiles& files() { return files_; }
  std::uint64_t next_sequence() { return state_.next_sequence++; }

 private:
  struct Active {
    SegmentValue row;
    FileHandle file;
    bool touched = false;  // since the last begin_commit()
    Status error;
    std::optional<SegmentValue> committing;  // the row as it will be known, while a commit lasts
  };

  Status open_next();
  Status reuse(SegmentId segment, const SegmentValue& row);
  Status create();
  void start(SegmentId segment, const SegmentValue& row, FileHandle file);
  std::optional<SegmentTable::Row> next_free() const;
  std::uint64_t used_bytes();
  std::uint64_t next_order() const;
  Active* open_segment();
  void drop_active(SegmentId segment);

  StoreState& state_;
  Device& device_;
  IoQueue& io_;
  SegmentFiles files_;
  AsideFiles aside_;
  std::map<SegmentId, Active> active_;
  std::optional<SegmentId> open_;
  std::vector<SegmentId> stale_open_;  // open in the index, but not appended to any more
  // Generations that were begun and given up: what a failed index write held may still turn up.
  std::map<SegmentId, std::uint32_t> burnt_generations_;
  MonotonicTime no_growth_until_{};  // the file system was full
};

}  // namespace kvstrata::storage
