// A Room has places for requests under way. Whoever waits for several sleeps until all are free:
// a std::counting_semaphore spins before it sleeps, and the benchmark counts CPU seconds.
//
// Threads: any may give back; one takes.
#pragma once

#include <condition_variable>
#include <mutex>

namespace kvstrata::bench {

class Room {
 public:
  explicit Room(std::size_t places) : free_(places) {}

  void take(std::size_t places) {
    std::unique_lock lock(mutex_);
    wanted_ = places;
    freed_.wait(lock, [&] { return free_ >= wanted_; });
    free_ -= places;
    wanted_ = 0;
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    ++free_;
    if (wanted_ > 0 && free_ >= wanted_) freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::size_t free_;
  std::size_t wanted_ = 0;  // by the one that waits
};

}  // namespace kvstrata::bench
