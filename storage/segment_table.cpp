#include "storage/segment_table.h"

#include <tuple>

#include "kvstrata/check.h"

namespace kvstrata::storage {

void SegmentTable::load(const std::vector<Row>& rows) {
  const std::lock_guard lock(mutex_);
  for (auto it = slots_.begin(); it != slots_.end();) {
    it->second.known = false;
    it = it->second.readers == 0 ? slots_.erase(it) : std::next(it);
  }
  for (const auto& [segment, value] : rows) {
    slots_[segment].value = value;
    slots_[segment].known = true;
  }
}

void SegmentTable::set(SegmentId segment, const SegmentValue& value) {
  const std::lock_guard lock(mutex_);
  slots_[segment].value = value;
  slots_[segment].known = true;
}

void SegmentTable::erase(SegmentId segment) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(segment);
  if (found == slots_.end()) return;
  found->second.known = false;
  if (found->second.readers == 0) slots_.erase(found);
}

std::optional<SegmentValue> SegmentTable::find(SegmentId segment) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(segment);
  if (found == slots_.end() || !found->second.known) return std::nullopt;
  return found->second.value;
}

std::vector<SegmentTable::Row> SegmentTable::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const auto& [segment, slot] : slots_) {
    if (slot.known) rows.emplace_back(segment, slot.value);
  }
  return rows;
}

SegmentTotals SegmentTable::totals() const {
  const std::lock_guard lock(mutex_);
  SegmentTotals totals;
  for (const auto& [segment, slot] : slots_) {
    if (!slot.known) continue;
    ++totals.segments;
    totals.free += slot.value.state == SegmentState::free ? 1 : 0;
    totals.lost += slot.value.state == SegmentState::lost ? 1 : 0;
    totals.bytes += slot.value.bytes;
    totals.live_blocks += slot.value.live_blocks;
    totals.live_bytes += slot.value.live_bytes;
  }
  return totals;
}

bool SegmentTable::pin(SegmentId segment, std::uint32_t generation) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(segment);
  if (found == slots_.end() || !found->second.known) return false;
  const SegmentValue& value = found->second.value;
  if (value.generation != generation || value.state == SegmentState::free) return false;
  ++found->second.readers;
  return true;
}

void SegmentTable::unpin(SegmentId segment) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(segment);
  KV_CHECK(found != slots_.end() && found->second.readers > 0, "unpin without pin");
  if (--found->second.readers > 0) return;
  if (!found->second.known) slots_.erase(found);
  unpinned_.notify_all();
}

bool SegmentTable::pinned(SegmentId segment) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(segment);
  return found != slots_.end() && found->second.readers > 0;
}

void SegmentTable::wait_unpinned(SegmentId segment) const {
  std::unique_lock lock(mutex_);
  unpinned_.wait(lock, [&] {
    const auto found = slots_.find(segment);
    return found == slots_.end() || found->second.readers == 0;
  });
}

std::optional<SegmentId> SegmentTable::next_free() const {
  const std::lock_guard lock(mutex_);
  std::optional<SegmentId> busy;
  for (const auto& [segment, slot] : slots_) {
    if (!slot.known || slot.value.state != SegmentState::free) continue;
    if (slot.readers == 0) return segment;
    if (!busy) busy = segment;
  }
  return busy;
}

std::optional<SegmentId> SegmentTable::next_victim(
    const std::function<bool(SegmentId)>& skip) const {
  const std::lock_guard lock(mutex_);
  std::optional<SegmentId> best;
  std::tuple<int, std::uint64_t> best_rank;
  for (const auto& [segment, slot] : slots_) {
    const bool lost = slot.value.state == SegmentState::lost;
    if (!slot.known || (!lost && slot.value.state != SegmentState::sealed) || skip(segment)) {
      continue;
    }
    const int urgency = lost ? 0 : slot.value.live_bytes == 0 ? 1 : 2;
    const std::tuple rank(urgency, slot.value.order);
    if (!best || rank < best_rank) std::tie(best, best_rank) = std::tuple(segment, rank);
  }
  return best;
}

}  // namespace kvstrata::storage
