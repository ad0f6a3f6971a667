// A Writer is the thread that makes appends durable: it gathers them into groups, makes room by
// reclaim, and does the errands other threads leave for it.
//
// Lifetime: start() to stop(); stop() finishes what is queued.
#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "storage/group_commit.h"
#include "storage/readmission.h"
#include "storage/reclaim.h"

namespace kvstrata::storage {

class Writer {
 public:
  Writer(StoreState& state, AppendQueue& queue, std::unique_ptr<Device> device, AsideFiles aside,
         std::function<void(SegmentId)> forget_file);
  ~Writer();

  /// Takes up the segments the index calls open; before start().
  void resume(const std::vector<SegmentTable::Row>& open_segments);
  void start();
  void stop();

  std::string device_name() const { return device_name_; }

 private:
  void run();
  Status recover_index();
  Status readmit_disk();
  void do_errands();
  void remove_expired();
  MonotonicTime next_deadline() const;
  void take(MonotonicTime until);
  void handle(const AppendPtr& append);
  void write_ahead();
  bool wants_more_ahead() const;
  bool can_begin_ahead(const Append& append);
  void begin(const AppendPtr& append);
  /// The result of an append that needs no write, or whose turn is over; nothing: write it.
  std::optional<Result<IndexEntry>> settle_early(const Append& append);
  Status ensure_room(const Append& append);
  void reclaim_ahead();
  bool group_is_due() const;
  void commit_group();
  void commit_and_write_ahead();

  StoreState& state_;
  AppendQueue& queue_;
  std::unique_ptr<Device> device_;
  const std::string device_name_;
  IoQueue io_;
  SegmentLog log_;
  GroupCommit group_;
  Reclaimer reclaimer_;
  Readmission readmission_;
  std::deque<AppendPtr> taken_;  // from the queue, not begun
  bool may_write_ahead_ = false;
  std::optional<SegmentId> reclaimed_for_;  // the open segment when reclaim_ahead() was last done
  MonotonicTime group_began_{};
  MonotonicTime next_shrink_{};
  std::thread thread_;
};

}  // namespace kvstrata::storage
