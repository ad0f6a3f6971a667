#include "daemon/server/deadlines.h"

#include <vector>

#include "daemon/server/session.h"

namespace kvstrata::daemon {

DeadlineQueue::Place DeadlineQueue::add(MonotonicTime deadline, Entry entry) {
  // Most requests have the same time left, so most go to the end.
  const Place place = entries_.emplace_hint(entries_.end(), deadline, std::move(entry));
  if (place == entries_.begin() && first_changed_) first_changed_();
  return place;
}

std::optional<MonotonicTime> DeadlineQueue::next() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.begin()->first;
}

void DeadlineQueue::expire(MonotonicTime now) {
  // Each expired request takes its own entry out.
  while (!entries_.empty() && entries_.begin()->first <= now) {
    const Entry entry = entries_.begin()->second;
    const auto session = entry.session.lock();
    if (session) {
      session->expire_request(entry.request_id);
    } else {
      entries_.erase(entries_.begin());
    }
  }
}

}  // namespace kvstrata::daemon
