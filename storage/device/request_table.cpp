#include "storage/device/request_table.h"

#include <functional>

#include "kvstrata/check.h"

namespace kvstrata::storage {

namespace {

// user_data is generation << 16 | slot: 4096 slots at most, and 2^48 generations never end.
constexpr unsigned slot_bits = 16;
constexpr std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;

}  // namespace

void RequestTable::reserve(std::size_t depth) {
  KV_CHECK(depth <= slot_mask, "more slots than user_data can name");
  if (depth <= slots_.size()) {
    return;
  }
  KV_CHECK(active_ == 0, "slots would move under requests in flight");
  slots_.resize(depth);
  free_.clear();
  for (std::size_t i = depth; i > 0; --i) {
    free_.push_back(static_cast<std::uint32_t>(i - 1));
  }
}

RequestTable::Slot& RequestTable::begin(const IoRequest& request, std::optional<Status>* result) {
  KV_CHECK(!free_.empty(), "more requests in flight than the queue is deep");
  Slot& slot = slots_[free_.back()];
  free_.pop_back();
  KV_CHECK(!slot.active, "a free slot holds a request");
  slot = Slot{.request = request, .result = result, .active = true};
  ++active_;
  return slot;
}

std::uint64_t RequestTable::begin_attempt(Slot& slot) {
  KV_CHECK(slot.active && !slot.attempting, "a request has one attempt at a time");
  slot.generation = next_generation_++;
  slot.attempting = true;
  const auto index = static_cast<std::uint64_t>(&slot - slots_.data());
  return slot.generation << slot_bits | index;
}

RequestTable::Slot* RequestTable::end_attempt(std::uint64_t user_data) {
  const std::uint64_t index = user_data & slot_mask;
  if (index >= slots_.size()) {
    return nullptr;
  }
  Slot& slot = slots_[index];
  if (!slot.active || !slot.attempting || slot.generation != user_data >> slot_bits) {
    return nullptr;
  }
  slot.attempting = false;
  return &slot;
}

void RequestTable::end(Slot& slot) {
  KV_CHECK(slot.active && !slot.attempting, "a slot is freed once, after its last attempt");
  slot.active = false;
  --active_;
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
}

bool RequestTable::touches(const std::byte* buffer, std::uint64_t bytes) const {
  const std::less<const std::byte*> before;
  for (const Slot& slot : slots_) {
    const IoRequest& request = slot.request;
    if (slot.active && request.operation != IoOperation::data_sync &&
        before(request.buffer, buffer + bytes) && before(buffer, request.buffer + request.bytes)) {
      return true;
    }
  }
  return false;
}

}  // namespace kvstrata::storage
