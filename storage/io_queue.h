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

  std::size_t in_flight() const { return in_flight_; }
  std::size_t depth() const { return device_.queue_depth(); }

 private:
  void submit();
  void end(std::uint64_t tag, const Status& status);

  Device& device_;
  std::vector<Done> slots_;
  std::vector<std::uint64_t> free_slots_;
  std::vector<IoRequest> staged_;
  std::vector<IoCompletion> ended_;
  std::size_t in_flight_ = 0;  // staged ones included
};

}  // namespace kvstrata::storage
