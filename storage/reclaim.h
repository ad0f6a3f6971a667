// A Reclaimer empties segments for reuse: the oldest first, dead and lost ones before. What should
// stay is appended anew; everything else leaves the index in one batch with what continues it.
// Order: synced index delete, then reads in flight end, then new generation, then reuse.
//
// Threads: the writer's.
#pragma once

#include <deque>
#include <set>
#include <vector>

#include "storage/group_commit.h"
#include "storage/reclaim_plan.h"
#include "storage/record_read.h"

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

  enum class Progress { going_on, emptied, nothing_to_empty };

  /// Empties one segment; false if there is none that can be. Commits the group if blocks are
  /// moved.
  Result<bool> reclaim_one();
  /// The next step of that: some milliseconds of work, to be done while the disk has other work.
  /// Where it waits, `write_ahead` is called.
  Result<Progress> advance(GroupCommit::WriteAhead write_ahead = [] {});
  /// Forgets how far it came, and frees what it has read.
  void rest();
  /// Marks a segment whose file is gone or cut: its blocks leave the index.
  Status give_up(SegmentId segment);
  /// Removes a free segment of no use: of another size, or beyond the reserve while the store is
  /// over its budget. False: there is none.
  Result<bool> remove_spare();
  /// Reclaims and removes files until the store fits its budget.
  Status shrink_to_budget();

 private:
  enum class Step { plan, move, drop };

  /// A record on its way from disk; it stays where it is until it was finished.
  struct Reading {
    RecordRead record;
    Status status;
    std::size_t transfers_left = 0;
  };
  /// A segment on its way to be empty.
  struct Emptying {
    explicit Emptying(SegmentId segment) : victim(segment) {}

    SegmentId victim;
    Step next = Step::plan;
    int plans = 0;
    MonotonicTime last_step{};
    std::vector<PlacedRecord> placed;
    std::vector<KeyedEntry> keep;
    std::size_t unread = 0;        // the first of `keep` that is not being read yet
    std::deque<Reading> readings;  // those next to be moved; in flight
  };
  Result<Progress> take_step();
  Result<Progress> plan();
  Result<Progress> move_away();
  Result<Progress> drop();
  /// Of a segment that can't be emptied now.
  Progress set_aside();
  Status widen_touches();
  ReclaimRules rules() const;
  void start_reads();
  void end_reads();
  Status move_blocks();
  /// False: there is no room for it.
  Result<bool> move_block(Reading& reading);
  Result<bool> move_tables(const std::vector<PlacedRecord>& placed);
  Result<bool> move_namespaces(const std::vector<PlacedRecord>& placed);
  Result<bool> add_move(RecordKind kind, const BlockKey& key, const IndexEntry& entry,
                        ReadRecord record);
  void start_read(Reading& reading);
  void wait_for(const Reading& reading);
  Result<ReadRecord> finish(Reading& reading);
  Result<ReadRecord> read(RecordKind kind, const BlockKey& key, const IndexEntry& entry);
  bool is_damage(const Error& error);
  Status remove_damaged(const BlockKey& key, const IndexEntry& entry);
  Status commit_group();
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
  std::optional<Emptying> emptying_;
  std::set<SegmentId> stuck_;   // full of blocks that must stay
  std::uint64_t moved_in_ = 0;  // the last group with moves, and their bytes
  std::uint64_t moved_bytes_ = 0;
  bool move_failed_ = false;  // since the last plan
  GroupCommit::WriteAhead write_ahead_ = [] {};
};

}  // namespace kvstrata::storage
