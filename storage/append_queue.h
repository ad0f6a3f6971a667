// An AppendQueue holds the appends that are not durable yet: in order of arrival for the writer,
// and by ticket for those who wait for or cancel them.
//
// Threads: push(), wait_flushed(), cancel() from any; take() and finish() on the writer thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "storage/segment/record.h"
#include "storage/store.h"

namespace kvstrata::storage {

/// One append under way, from the queue to its completion.
struct Append {
  RecordKind kind = RecordKind::block;
  AppendRequest request;
  ExtentPlan extents;
  std::vector<std::uint64_t> frame_xxh3;  ///< of each extent's part of the frame
  std::uint64_t created_unix_ms = 0;
  AppendDone done;
  /// Set for a record that reclaim moves: where the entry must still point for the move to count.
  std::optional<RecordLocation> moved_from;
  std::uint64_t ticket = 0;
  std::atomic<bool> cancelled{false};
  // Filled in while it is written:
  std::vector<RecordLocation> places;
  Status written;

  std::uint64_t record_bytes() const;
  std::uint64_t record_bytes_of(std::uint16_t extent) const;
};
using AppendPtr = std::shared_ptr<Append>;

/// Plans extents and sums each part of the frame. `too_large` names the limit.
Status prepare_append(Append& append, std::uint64_t record_bytes_max,
                      std::uint64_t frame_bytes_max);

class AppendQueue {
 public:
  AppendQueue(std::size_t appends_max, const Clock& clock)
      : appends_max_(appends_max), clock_(clock) {}

  /// `busy` beyond appends_max, `unavailable` once closed. `urgent` doesn't wait for a group.
  Status push(AppendPtr append, bool urgent = false);
  /// Takes appends of up to `bytes_max` (at least one). Waits for one until `until` by the clock
  /// (none: for ever), a wake() or close(); so it may return nothing.
  std::vector<AppendPtr> take(std::uint64_t bytes_max, std::optional<MonotonicTime> until);
  /// Ends an append: calls its `done`, then lets go of it.
  void finish(const AppendPtr& append, Result<IndexEntry> result);

  /// Returns when everything pushed before has been finished.
  void wait_flushed();
  /// Whether somebody waits, so that a group should not wait for company.
  bool flush_wanted() const;
  /// Marks appends under way for which `wanted` is true: they end as `cancelled` unless the index
  /// has them already. Returns how many were newly marked.
  std::size_t cancel(const std::function<bool(const Append&)>& wanted);
  /// Visits every append under way.
  void visit(const std::function<void(const Append&)>& visitor) const;

  void wake();
  void close();
  bool closed() const;
  std::uint64_t count() const;
  std::uint64_t bytes() const;

 private:
  const std::size_t appends_max_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::deque<AppendPtr> queue_;
  std::map<std::uint64_t, AppendPtr> under_way_;  // by ticket; queued ones included
  std::uint64_t next_ticket_ = 1;
  std::size_t count_ = 0;  // of those whose `done` was not called yet
  std::uint64_t bytes_ = 0;
  std::uint64_t urgent_through_ = 0;  // tickets up to here don't wait for company
  std::size_t flushers_ = 0;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace kvstrata::storage
