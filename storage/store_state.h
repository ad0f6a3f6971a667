// StoreState is what the parts of one open store share: options, index, tables in memory, counters.
//
// Threads: each member says its own rule; `mutation` serialises changes of the index (IndexChange).
// Lock order: mutation, then any one of the members' own locks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "storage/catalog.h"
#include "storage/health.h"
#include "storage/interest.h"
#include "storage/segment_table.h"
#include "storage/size_plan.h"
#include "storage/store.h"
#include "storage/store_directory.h"

namespace kvstrata::storage {

/// Counts of this run, as in StoreStats.
struct StoreCounters {
  std::atomic<std::uint64_t> appended_blocks{0}, appended_bytes{0}, reinserted_bytes{0};
  std::atomic<std::uint64_t> reclaimed_segments{0}, dropped_blocks{0}, group_commits{0};
  std::atomic<std::uint64_t> read_blocks{0}, read_bytes{0}, corrupt_records{0};
  std::atomic<std::uint64_t> read_errors{0}, write_errors{0}, expired_blocks{0};
  std::atomic<std::uint64_t> condemned_segments{0}, lost_segments{0}, aside_bytes{0};
  std::atomic<bool> reclaiming{false};
  std::atomic<bool> growth_refused{false};  ///< the file system was full when last asked for more
};

/// Keys that left the index without being asked to, on their way to the on_dropped callback.
class DroppedKeys {
 public:
  using Callback = std::function<void(std::span<const BlockKey>)>;

  void set_callback(Callback callback);
  void add(std::span<const BlockKey> keys);
  /// Calls back with everything added since; on the writer thread.
  void deliver();

 private:
  std::mutex mutex_;
  Callback callback_;
  std::vector<BlockKey> keys_;
};

/// Work that other threads find and the writer thread does.
class WriterErrands {
 public:
  static constexpr std::size_t expired_max = 4096;

  /// `key` was seen to be expired. Beyond the bound it is left for the next who sees it.
  void add_expired(const BlockKey& key);
  /// The file of `segment` is gone or cut.
  void add_lost(SegmentId segment);
  std::vector<BlockKey> take_expired();
  std::vector<SegmentId> take_lost();

 private:
  std::mutex mutex_;
  std::vector<BlockKey> expired_;
  std::vector<SegmentId> lost_;
};

struct StoreState {
  StoreState(StoreOptions store_options, StoreDirectory store_directory, const SizePlan& plan,
             std::unique_ptr<Database> store_database)
      : options(std::move(store_options)),
        directory(std::move(store_directory)),
        sizes(plan),
        database(std::move(store_database)),
        index(*database),
        health(*options.clock) {}

  const StoreOptions options;
  const StoreDirectory directory;
  const SizePlan sizes;
  const std::unique_ptr<Database> database;
  const Index index;
  SegmentTable segments;
  Catalog catalog;
  Interest interest;
  Health health;
  StoreCounters counters;
  DroppedKeys dropped;
  WriterErrands errands;
  std::function<void()> wake_writer;  ///< set before threads start
  std::atomic<std::uint64_t> next_sequence{1};
  std::atomic<std::uint32_t> next_segment{1};

  std::mutex mutation;
  bool index_failed = false;  ///< under `mutation`: a write failed, recover before the next

  /// Remembers on disk that the index is damaged, so that the next start replaces it.
  void note_index_error(const Error& error) const;
  std::uint64_t now_unix_ms() const { return options.clock->unix_ms(); }
  void at_point(std::string_view name) const {
    if (options.at_point) options.at_point(name);
  }
};

}  // namespace kvstrata::storage
