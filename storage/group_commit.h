// A GroupCommit is the appends that become durable together: it writes their records with many
// requests in flight, syncs each touched segment once, then writes one index batch, then completes
// them. Data first, then index, always.
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
  /// Further changes that become true with the group, under the same lock and in the same batch.
  using More = std::function<Status(IndexChange&)>;

  GroupCommit(StoreState& state, SegmentLog& log, IoQueue& io, AppendQueue& queue)
      : state_(state), log_(log), io_(io), queue_(queue) {}

  /// Starts the writes of an append; it fails by itself if there is no room for it.
  void add(const AppendPtr& append);
  bool empty() const { return appends_.empty(); }
  std::uint64_t bytes() const { return bytes_; }
  bool contains(const BlockKey& key) const { return keys_.contains(key); }

  /// Makes the group durable and completes its appends, each with its own result. The returned
  /// status is that of the index batch.
  Status commit(const More& more = {});

 private:
  void write_extent(const AppendPtr& append, std::uint16_t extent, const SegmentLog::Place& place);
  void write_packed(const AppendPtr& append, RecordHeader& header, const SegmentLog::Place& place);
  void write_split(const AppendPtr& append, RecordHeader& header, const SegmentLog::Place& place);
  void start_write(const AppendPtr& append, const SegmentLog::Place& place, std::uint64_t offset,
                   std::byte* buffer, std::uint64_t bytes, std::shared_ptr<AlignedBuffer> owner);
  void sync_data();
  Status write_index(const More& more);
  Status put_appends(IndexChange& change);
  void put_block(IndexChange& change, Append& append, const std::optional<IndexEntry>& existing);
  void fail_lost_writes();
  void finish(const Status& index_status);
  void count(const Append& append);

  StoreState& state_;
  SegmentLog& log_;
  IoQueue& io_;
  AppendQueue& queue_;
  std::vector<AppendPtr> appends_;
  std::unordered_set<BlockKey> keys_;
  std::uint64_t bytes_ = 0;
  std::vector<SegmentId> lost_;
  std::vector<BlockKey> dropped_;
};

/// What the index will say of an append whose places are known.
IndexEntry entry_of(const Append& append);

}  // namespace kvstrata::storage
