#include "history.h"

#include <algorithm>

namespace kvstrata::test {

void History::put_begins(std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  puts_[version].began = moments_.next();
}

void History::put_ends(std::uint64_t version, PutEnd end) {
  const std::lock_guard lock(mutex_);
  if (end == PutEnd::unknown) return;  // runs for ever, for all that is known
  if (end == PutEnd::refused) {
    puts_.erase(version);
    return;
  }
  Put& put = puts_.at(version);
  put.ended = moments_.next();
  put.stored = true;
  forget_what_no_read_can_see();
}

Moment History::removal_begins() {
  return moments_.next();
}

void History::removal_ends(Moment began) {
  const std::lock_guard lock(mutex_);
  removals_[began] = moments_.next();
  forget_what_no_read_can_see();
}

Moment History::read_begins() {
  const std::lock_guard lock(mutex_);
  const Moment began = moments_.next();
  reads_.insert(began);
  return began;
}

void History::read_ends(Moment began) {
  const std::lock_guard lock(mutex_);
  reads_.erase(reads_.find(began));
}

// A removal that began after the put had ended took it away; so did whatever made room for a later
// version, which is stored only where there is none.
bool History::gone_before(const Put& put, Moment moment) const {
  if (put.ended == running) return false;
  const auto removed = [&](const auto& removal) {
    return removal.first > put.ended && removal.second < moment;
  };
  const auto replaced = [&](const auto& other) {
    return other.second.stored && other.second.began > put.ended && other.second.ended < moment;
  };
  return std::ranges::any_of(removals_, removed) || std::ranges::any_of(puts_, replaced);
}

bool History::may_have_seen(std::uint64_t version, Moment began) const {
  const std::lock_guard lock(mutex_);
  const auto put = puts_.find(version);
  return put != puts_.end() && !gone_before(put->second, began);
}

void History::forget_what_no_read_can_see() {
  const Moment oldest_read = reads_.empty() ? moments_.next() : *reads_.begin();
  std::vector<std::uint64_t> gone;
  for (const auto& [version, put] : puts_) {
    if (gone_before(put, oldest_read)) gone.push_back(version);
  }
  for (const std::uint64_t version : gone) puts_.erase(version);
  Moment oldest_put = running;
  for (const auto& [version, put] : puts_) oldest_put = std::min(oldest_put, put.ended);
  std::erase_if(removals_, [&](const auto& removal) { return removal.first < oldest_put; });
}

std::size_t History::size() const {
  const std::lock_guard lock(mutex_);
  return puts_.size() + removals_.size();
}

}  // namespace kvstrata::test
