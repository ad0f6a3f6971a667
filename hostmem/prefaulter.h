// A Prefaulter holds memfds made ahead of need and touches their pages on a thread of its own: the
// first touch of shared memory is many times slower than later ones. What it hands out never
// belonged to anybody.
//
// Threads: the public methods on the control thread; the worker is internal and stops within a step
// of one MiB.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "hostmem/shared_memory.h"

namespace kvstrata::hostmem {

class Prefaulter {
 public:
  Prefaulter() = default;
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;
  ~Prefaulter();

  /// Queues `memory` to be touched; starts the worker at first use.
  void add(SharedMemory memory);
  /// One that was added, touched if there is one, as it is otherwise; none if all were taken.
  std::optional<SharedMemory> take();
  /// Bytes added and not taken.
  std::uint64_t bytes_held() const { return bytes_held_; }
  /// Blocks until all that is held has been touched.
  void wait_until_touched();

 private:
  void work();
  void touch(SharedMemory& memory);

  std::uint64_t bytes_held_ = 0;  // of the control thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SharedMemory> untouched_, touched_;
  bool busy_ = false;   ///< the worker touches one that is in neither queue
  bool hurry_ = false;  ///< the worker is to give back what it has
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace kvstrata::hostmem
