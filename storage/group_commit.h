// A GroupCommit is the appends that become durable together: it writes their records with many
// requests in flight, syncs each touched segment once, then writes one index batch, then completes
// them. Data first, then index, always. While one group is synced the next is written already.
//
// Threads: the writer's. Lifetime: reused for group after group.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "storage/segment_log.h"

namespace kvstrata::storage {

class GroupCommit {
 public:
  GroupCommit(StoreState& state, SegmentLog& log, IoQueue& io, AppendQueue& queue)
      : state_(state), log_(log), io_(io), queue_(queue) {}

  /// Starts the writes of an append; it fails by itself if there is no room for it.
  void add(const AppendPtr& append);
  bool empty() const { return open_.appends.empty(); }
  std::uint64_t bytes() const { return open_.bytes; }
  /// Rises with each commit.
  std::uint64_t number() const { return number_; }
  /// Also of the group that is being committed.
  bool contains(const BlockKey& key) const {
    return open_.keys.contains(key) || closing_.keys.contains(key);
  }

  /// Adds what follows, so that the disk has work meanwhile.
  using WriteAhead = std::function<void()>;

  /// Makes the group durable and completes its appends, each with its own result. Between waits
  /// `write_ahead` is called. The returned status is that of the index batch; if it failed, what
  /// was written ahead has failed too.
  Status commit(const WriteAhead& write_ahead = [] {});

 private:
  struct Group {
    std::vector<AppendPtr> appends;
    std::unordered_set<BlockKey> keys;
    std::uint64_t bytes = 0;
  };

  void write_extent(const AppendPtr& append, std::uint16_t extent, const SegmentLog::Place& place);
  void write_packed(const AppendPtr& append, RecordHeader& header, const SegmentLog::Place& place);
  void write_split(const AppendPtr& append, RecordHeader& header, const SegmentLog::Place& place);
  std::shared_ptr<AlignedBuffer> take_buffer(const AppendPtr& append,
                                             const SegmentLog::Place& place, std::uint64_t bytes);
  void start_write(const AppendPtr& append, const SegmentLog::Place& place, std::uint64_t offset,
                   std::byte* buffer, std::uint64_t bytes, std::shared_ptr<AlignedBuffer> owner);
  void wait_until(const std::function<bool()>& ended, const WriteAhead& write_ahead);
  void sync_data(const WriteAhead& write_ahead);
  Status write_index();
  Status put_appends(IndexChange& change);
  /// Of a table that reclaim moves: whether it is where it was.
  bool still_there(const Append& table) const;
  void put_block(IndexChange& change, Append& append, const std::optional<IndexEntry>& existing);
  void fail_lost_writes();
  void finish(const Status& index_status);
  void complete(Group group);
  void count(const Append& append);

  StoreState& state_;
  SegmentLog& log_;
  IoQueue& io_;
  AppendQueue& queue_;
  Group open_;     // add() goes here
  Group closing_;  // while commit() runs
  std::uint64_t number_ = 1;
  std::vector<SegmentId> lost_;
  std::vector<BlockKey> dropped_;
};

/// What the index will say of an append whose places are known.
IndexEntry entry_of(const Append& append);

}  // namespace kvstrata::storage
