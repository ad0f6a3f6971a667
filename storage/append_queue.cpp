#include "storage/append_queue.h"

#include <algorithm>

namespace kvstrata::storage {

namespace {
// A clock that tests move by hand wakes nobody, so the wait looks at it again this often.
constexpr Milliseconds clock_step{20};
}  // namespace

std::uint64_t Append::record_bytes_of(std::uint16_t extent) const {
  const std::uint64_t part = extents.frame_bytes_of(extent, request.frame_bytes);
  return record_shape(extent == 0 ? request.identity.size() : 0, part, extent).record_bytes;
}

std::uint64_t Append::record_bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < extents.count; ++i) bytes += record_bytes_of(i);
  return bytes;
}

Status prepare_append(Append& append, std::uint64_t record_bytes_max,
                      std::uint64_t frame_bytes_max) {
  const AppendRequest& request = append.request;
  if (request.frame_bytes > frame_bytes_max) {
    return Error(ErrorKind::too_large, "a frame has at most " + std::to_string(frame_bytes_max) +
                                           " bytes in this store, not " +
                                           std::to_string(request.frame_bytes));
  }
  if (request.frame_bytes > request.frame.size()) {
    return Error(ErrorKind::invalid_argument, "frame_bytes exceeds the frame's buffer");
  }
  KV_ASSIGN(append.extents,
            plan_extents(request.identity.size(), request.frame_bytes, record_bytes_max));
  for (std::uint16_t i = 0; i < append.extents.count; ++i) {
    append.frame_xxh3.push_back(checksum({request.frame.data() + append.extents.frame_start_of(i),
                                          append.extents.frame_bytes_of(i, request.frame_bytes)}));
  }
  return {};
}

Status AppendQueue::push(AppendPtr append, bool urgent) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Error(ErrorKind::unavailable, "the store is closing");
  if (count_ >= appends_max_) {
    return Error(ErrorKind::busy, std::to_string(appends_max_) + " appends are not durable yet");
  }
  append->ticket = next_ticket_++;
  if (urgent) urgent_through_ = append->ticket;
  ++count_;
  bytes_ += append->record_bytes();
  under_way_.emplace(append->ticket, append);
  queue_.push_back(std::move(append));
  work_.notify_one();
  return {};
}

std::vector<AppendPtr> AppendQueue::take(std::uint64_t bytes_max,
                                         std::optional<MonotonicTime> until) {
  std::unique_lock lock(mutex_);
  while (queue_.empty() && !woken_ && !closed_) {
    if (!until) {
      work_.wait(lock);
      continue;
    }
    const MonotonicTime now = clock_.now();
    if (now >= *until) break;
    const auto left = std::chrono::ceil<Milliseconds>(*until - now);
    const bool by_hand = &clock_ != &Clock::system();
    work_.wait_for(lock, by_hand ? std::min(left, clock_step) : left);
  }
  woken_ = false;
  std::vector<AppendPtr> taken;
  std::uint64_t bytes = 0;
  while (!queue_.empty() && (taken.empty() || bytes < bytes_max)) {
    bytes += queue_.front()->record_bytes();
    taken.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return taken;
}

void AppendQueue::finish(const AppendPtr& append, Result<IndexEntry> result) {
  {
    // Before `done`, so that whoever is told may push the next one at once.
    const std::lock_guard lock(mutex_);
    if (under_way_.contains(append->ticket)) {
      --count_;
      bytes_ -= append->record_bytes();
    }
  }
  if (append->done) append->done(std::move(result));
  append->done = nullptr;
  const std::lock_guard lock(mutex_);
  under_way_.erase(append->ticket);  // not there if reclaim made it
  finished_.notify_all();
}

void AppendQueue::wait_flushed() {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = next_ticket_;
  ++flushers_;
  woken_ = true;
  work_.notify_one();
  finished_.wait(lock, [&] { return under_way_.empty() || under_way_.begin()->first >= end; });
  --flushers_;
}

bool AppendQueue::flush_wanted() const {
  const std::lock_guard lock(mutex_);
  const bool urgent = !under_way_.empty() && under_way_.begin()->first <= urgent_through_;
  return flushers_ > 0 || urgent || closed_;
}

std::size_t AppendQueue::cancel(const std::function<bool(const Append&)>& wanted) {
  const std::lock_guard lock(mutex_);
  std::size_t marked = 0;
  for (const auto& [ticket, append] : under_way_) {
    if (!append->cancelled && wanted(*append)) {
      append->cancelled = true;
      ++marked;
    }
  }
  return marked;
}

void AppendQueue::visit(const std::function<void(const Append&)>& visitor) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [ticket, append] : under_way_) visitor(*append);
}

void AppendQueue::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  work_.notify_one();
}

void AppendQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  work_.notify_all();
}

bool AppendQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::uint64_t AppendQueue::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::uint64_t AppendQueue::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvstrata::storage
