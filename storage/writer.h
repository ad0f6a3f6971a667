// A Writer is the thread that makes appends durable: it gathers them into groups, makes room by
// reclaim, and does the errands other threads leave for it.
//
// Lifetime: start() to stop(); stop() finishes what is queued.
#pragma once

#include <memory>
#include <thread>

#include "storage/group_commit.h"
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
  void do_errands();
  void remove_expired();
  void handle(const AppendPtr& append);
  /// The result of an append that needs no write, or whose turn is over; nothing: write it.
  std::optional<Result<IndexEntry>> settle_early(const Append& append);
  Status ensure_room(const Append& append);
  bool group_is_due() const;
  void commit_group();

  StoreState& state_;
  AppendQueue& queue_;
  std::unique_ptr<Device> device_;
  const std::string device_name_;
  IoQueue io_;
  SegmentLog log_;
  GroupCommit group_;
  Reclaimer reclaimer_;
  MonotonicTime group_began_{};
  MonotonicTime next_shrink_{};
  std::thread thread_;
};

}  // namespace kvstrata::storage
