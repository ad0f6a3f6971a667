#include "hostmem/prefaulter.h"

#include <algorithm>
#include <utility>

namespace kvstrata::hostmem {

namespace {

constexpr std::uint64_t step_bytes = 1_MiB;  // some milliseconds where pages come slowly

SharedMemory pop_front(std::deque<SharedMemory>& queue) {
  SharedMemory memory = std::move(queue.front());
  queue.pop_front();
  return memory;
}

}  // namespace

Prefaulter::~Prefaulter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void Prefaulter::add(SharedMemory memory) {
  bytes_held_ += memory.bytes();
  {
    const std::lock_guard lock(mutex_);
    untouched_.push_back(std::move(memory));
  }
  changed_.notify_all();
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
}

std::optional<SharedMemory> Prefaulter::take() {
  if (bytes_held_ == 0) return std::nullopt;
  std::unique_lock lock(mutex_);
  if (touched_.empty() && untouched_.empty()) {
    hurry_ = true;
    changed_.wait(lock, [this] { return !busy_; });
    hurry_ = false;
  }
  // From the back of the untouched: the worker is about to take the front.
  std::optional<SharedMemory> memory;
  if (!touched_.empty()) {
    memory = pop_front(touched_);
  } else {
    KV_CHECK(!untouched_.empty(), "held bytes are in one of the queues");
    memory = std::move(untouched_.back());
    untouched_.pop_back();
  }
  bytes_held_ -= memory->bytes();
  return memory;
}

void Prefaulter::wait_until_touched() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return untouched_.empty() && !busy_; });
}

void Prefaulter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !untouched_.empty(); });
    if (stop_) return;
    SharedMemory memory = pop_front(untouched_);
    busy_ = true;
    lock.unlock();
    touch(memory);
    lock.lock();
    busy_ = false;
    touched_.push_back(std::move(memory));
    changed_.notify_all();
  }
}

void Prefaulter::touch(SharedMemory& memory) {
  for (std::uint64_t at = 0; at < memory.bytes(); at += step_bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || hurry_) return;
    }
    if (!memory.populate(at, std::min(step_bytes, memory.bytes() - at))) return;
  }
}

}  // namespace kvstrata::hostmem
