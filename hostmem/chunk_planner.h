// A ChunkPlanner decides how many slots a new chunk gets. Stateless after construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "hostmem/arena.h"
#include "hostmem/chunk_format.h"

namespace kvstrata::hostmem {

class ChunkPlanner {
 public:
  /// Many chunks share a budget: none is made for more than an eighth of it.
  ChunkPlanner(std::uint64_t budget_bytes, std::uint64_t chunk_bytes)
      : target_bytes_(std::clamp(chunk_bytes, page_bytes, std::max(page_bytes, budget_bytes / 8))) {
  }

  /// The largest usual chunk that fits in `room_bytes`. Down to a quarter of the usual slots, so
  /// that a nearly full budget does not end as a heap of tiny files; none if not even that fits.
  std::optional<ChunkShape> fit(ChunkKind kind, std::uint64_t slot_bytes,
                                std::uint64_t room_bytes) const {
    const std::uint32_t usual = usual_slots(kind, slot_bytes);
    ChunkShape shape{slot_bytes, static_cast<std::uint32_t>(
                                     std::min<std::uint64_t>(usual, room_bytes / slot_bytes))};
    while (shape.slots > 0 && shape.file_bytes() > room_bytes) --shape.slots;
    if (shape.slots < std::max(1U, usual / 4)) return std::nullopt;
    return shape;
  }

  /// The length of memory made ahead: fits a usual read chunk of most slot sizes.
  std::uint64_t prefault_bytes() const { return round_up(target_bytes_, page_bytes) + page_bytes; }

 private:
  /// Every writing connection has staging chunks of its own, so they are smaller.
  std::uint32_t usual_slots(ChunkKind kind, std::uint64_t slot_bytes) const {
    const std::uint64_t target = kind == ChunkKind::staging ? target_bytes_ / 4 : target_bytes_;
    constexpr std::uint64_t slots_max = std::uint64_t{1} << 20;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(target / slot_bytes, 1, slots_max));
  }

  std::uint64_t target_bytes_;
};

}  // namespace kvstrata::hostmem
