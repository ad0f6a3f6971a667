// A Reader is the thread that reads records: it keeps its device's queue full, checks what comes
// back, and follows blocks that moved meanwhile.
//
// Threads: read() and forget_file() from any. Lifetime: start() to stop(); stop() finishes what is
// queued.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/io_queue.h"
#include "storage/record_read.h"
#include "storage/segment_files.h"
#include "storage/store_state.h"

namespace kvstrata::storage {

class Reader {
 public:
  Reader(StoreState& state, std::unique_ptr<Device> device);
  ~Reader();

  void start();
  void stop();

  /// Queues a read of a block or table record. `done` runs on the reader thread.
  void read(RecordKind kind, const BlockKey& key, const IndexEntry& entry, ReadDone done);
  /// The segment's file was removed; its space is free once it is closed here too.
  void forget_file(SegmentId segment);

 private:
  struct Job {
    RecordKind kind = RecordKind::block;
    BlockKey key;
    IndexEntry entry;
    ReadDone done;
    RecordRead read;
    std::size_t transfers_left = 0;
    Status status;
    int follows = 0;
  };
  using JobPtr = std::shared_ptr<Job>;

  void run();
  bool take_work();
  void begin(const JobPtr& job);
  bool pin_all(const Job& job);
  void unpin_all(const Job& job, std::size_t count);
  void start_transfers(const JobPtr& job);
  void end(const JobPtr& job);
  void end_failed(const JobPtr& job);
  void follow(const JobPtr& job);
  Result<std::optional<IndexEntry>> find_again(const Job& job) const;
  void answer(const JobPtr& job, Result<ReadRecord> result);
  void remove_broken(const Job& job);

  StoreState& state_;
  std::unique_ptr<Device> device_;
  IoQueue io_;
  SegmentFiles files_;
  std::uint64_t bytes_in_flight_ = 0;
  std::deque<JobPtr> waiting_;  // taken, not begun
  std::vector<JobPtr> ended_;   // transfers done, to be checked outside of the I/O queue
  std::vector<SegmentId> forgotten_here_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<JobPtr> queue_;
  std::vector<SegmentId> forgotten_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace kvstrata::storage
