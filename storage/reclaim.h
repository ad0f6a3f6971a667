// A Reclaimer empties segments for reuse: the oldest first, dead and lost ones before. What should
// stay is appended anew; everything else leaves the index in one batch with what continues it.
// Order: synced index delete, then reads in flight end, then new generation, then reuse.
//
// Threads: the writer's.
#pragma once

#include <set>
#include <vector>

#include "storage/group_commit.h"
#include "storage/reclaim_plan.h"

namespace kvstrata::storage {

class Reclaimer {
 public:
  /// `forget_file` tells other owners of open files that a segment's file was removed.
  Reclaimer(StoreState& state, SegmentLog& log, GroupCommit& group, IoQueue& io, AppendQueue& queue,
            std::function<void(SegmentId)> forget_file)
      : state_(state),
        log_(log),
        group_(group),
        io_(io),
        queue_(queue),
        forget_file_(std::move(forget_file)) {}

  /// Empties one segment; false if there is none that can be. The group must be empty.
  Result<bool> reclaim_one();
  /// Marks a segment whose file is gone or cut: its blocks leave the index.
  Status give_up(SegmentId segment);
  /// Removes a free segment of no use: of another size, or beyond the reserve while the store is
  /// over its budget. False: there is none.
  Result<bool> remove_spare();
  /// Reclaims and removes files until the store fits its budget.
  Status shrink_to_budget();

 private:
  Result<bool> empty_one();
  Status widen_touches();
  /// False if moving what must stay would free nothing, or there is no room to move it to.
  Result<bool> move_away(SegmentId victim, const SegmentValue& row);
  ReclaimRules rules() const;
  Status move_blocks(const std::vector<KeyedEntry>& blocks);
  Result<bool> move_tables(const std::vector<PlacedRecord>& placed);
  Result<bool> move_namespaces(const std::vector<PlacedRecord>& placed);
  Result<bool> add_move(RecordKind kind, const BlockKey& key, const IndexEntry& entry,
                        ReadRecord record);
  Result<ReadRecord> read(RecordKind kind, const BlockKey& key, const IndexEntry& entry);
  bool is_damage(const Error& error);
  Status remove_damaged(const BlockKey& key, const IndexEntry& entry);
  Status flush_moves(std::uint64_t at_least_bytes);
  /// True if the segment is empty now; false if something in it must stay after all.
  Result<bool> drop_rest(SegmentId victim);
  Result<bool> drop_blocks(IndexChange& change, SegmentId victim,
                           const std::vector<PlacedRecord>& placed, std::vector<BlockKey>& dropped);
  Status remove_file(SegmentId segment);

  StoreState& state_;
  SegmentLog& log_;
  GroupCommit& group_;
  IoQueue& io_;
  AppendQueue& queue_;
  std::function<void(SegmentId)> forget_file_;
};

}  // namespace kvstrata::storage
