#include "daemon/engine/index_doubts.h"

#include "kvstrata/check.h"

namespace kvstrata::daemon {

IndexDoubts::Reading IndexDoubts::reading_begins() {
  readings_.insert(++now_);
  return now_;
}

void IndexDoubts::reading_ends(Reading reading) {
  readings_.erase(reading);
  forget_what_no_reading_needs();
}

bool IndexDoubts::believes(Reading reading, const BlockKey& key,
                           const storage::IndexEntry& entry) const {
  if (is_tombstone(key)) return false;
  if (const auto removed = removed_.find(key); removed != removed_.end()) {
    if (removed->second > reading) return false;
  }
  const auto cleared = clearings_.find(key.ns);
  if (cleared == clearings_.end()) return true;
  const auto concerns = [reading](const Clearing& one) {
    return one.under_way > 0 || one.ended > reading;
  };
  return !concerns(cleared->second.all) && (entry.pinned || !concerns(cleared->second.unpinned));
}

void IndexDoubts::remove_tombstone(const BlockKey& key) {
  const auto at = tombstones_.find(key);
  KV_CHECK(at != tombstones_.end(), "tombstones are counted");
  if (--at->second > 0) return;
  tombstones_.erase(at);
  mark_removed(key);
}

void IndexDoubts::clearing_begins(NamespaceId ns, bool also_pinned) {
  Clearings& clearings = clearings_[ns];
  ++(also_pinned ? clearings.all : clearings.unpinned).under_way;
}

void IndexDoubts::clearing_ends(NamespaceId ns, bool also_pinned) {
  Clearings& clearings = clearings_.at(ns);
  Clearing& one = also_pinned ? clearings.all : clearings.unpinned;
  KV_CHECK(one.under_way > 0, "clearings are counted");
  --one.under_way;
  one.ended = ++now_;
}

void IndexDoubts::dropped(std::span<const BlockKey> keys) {
  for (const BlockKey& key : keys) mark_removed(key);
}

bool IndexDoubts::may_write(const BlockKey& key) const {
  if (is_tombstone(key)) return false;
  const auto cleared = clearings_.find(key.ns);
  return cleared == clearings_.end() ||
         cleared->second.all.under_way + cleared->second.unpinned.under_way == 0;
}

void IndexDoubts::mark_removed(const BlockKey& key) {
  if (readings_.empty()) return;
  removed_[key] = ++now_;
  removed_in_order_.emplace_back(now_, key);
}

void IndexDoubts::forget_what_no_reading_needs() {
  const std::uint64_t oldest = readings_.empty() ? UINT64_MAX : *readings_.begin();
  while (!removed_in_order_.empty() && removed_in_order_.front().first < oldest) {
    const auto& [when, key] = removed_in_order_.front();
    const auto removed = removed_.find(key);
    if (removed != removed_.end() && removed->second == when) removed_.erase(removed);
    removed_in_order_.pop_front();
  }
}

void IndexDoubts::settled() const {
  if (on_settled_) on_settled_();
}

}  // namespace kvstrata::daemon
