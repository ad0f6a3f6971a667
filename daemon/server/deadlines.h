// A DeadlineQueue knows which request's time is up next. Control thread. Lifetime: of the server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "kvstrata/clock.h"

namespace kvstrata::daemon {

class Session;

class DeadlineQueue {
 public:
  struct Entry {
    std::weak_ptr<Session> session;
    std::uint64_t request_id = 0;
  };
  using Place = std::multimap<MonotonicTime, Entry>::iterator;

  /// `first_changed` is called when the next deadline became an earlier one.
  explicit DeadlineQueue(std::function<void()> first_changed = {})
      : first_changed_(std::move(first_changed)) {}

  Place add(MonotonicTime deadline, Entry entry);
  void remove(Place place) { entries_.erase(place); }

  std::optional<MonotonicTime> next() const;
  /// Ends the requests whose deadline is not after `now`.
  void expire(MonotonicTime now);

 private:
  std::multimap<MonotonicTime, Entry> entries_;
  std::function<void()> first_changed_;
};

}  // namespace kvstrata::daemon
