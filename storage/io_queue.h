// An IoQueue runs requests on a Device with as many in flight as it takes, and calls back for each.
//
// Threads: one, the Device's. Lifetime: nothing may be in flight at destruction; drain() first.
#pragma once

#include <functional>
#include <vector>

#include "storage/device/device.h"

namespace kvstrata::storage {

class IoQueue {
 public:
  using Done = std::function<void(const Status&)>;

  explicit IoQueue(Device& device) : device_(device) {}
  ~IoQueue();

  /// Queues a request (its tag is the queue's); waits for room where the device is full. Callbacks
  /// run inside add(), poll() and drain(), and must not call back into the queue.
  void add(const IoRequest& request, Done done);
  /// Hands what is queued to the device and runs the callbacks of at least `minimum` requests that
  /// ended (fewer after `timeout`). Returns how many.
  std::size_t poll(std::size_t minimum, Milliseconds timeout);
  /// Waits for everything.
  void drain();
  /// A mark divides what was added so far from what is added later.
  std::uint64_t mark() const { return next_number_; }
  /// Whether all writes that were added before the mark was taken have ended.
  bool writes_ended_before(std::uint64_t mark) const;

  std::size_t in_flight() const { return in_flight_; }
  std::uint64_t bytes_in_flight() const { return bytes_in_flight_; }
  std::size_t depth() const { return device_.queue_depth(); }

 private:
  struct Slot {
    Done done;  // empty: the slot is free
    std::uint64_t number = 0, bytes = 0;
    bool is_read = false;
  };

  void submit();
  void end(std::uint64_t tag, const Status& status);

  Device& device_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> free_slots_;
  std::vector<IoRequest> staged_;
  std::vector<IoCompletion> ended_;
  std::size_t in_flight_ = 0;  // staged ones included
  std::uint64_t bytes_in_flight_ = 0;
  std::uint64_t next_number_ = 1;  // rises with each request
};

}  // namespace kvstrata::storage
