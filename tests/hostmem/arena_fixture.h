// What the arena's tests share: small arenas, tenants and connections.
#pragma once

#include <doctest/doctest.h>

#include <memory>

#include "hostmem/arena.h"

namespace kvstrata::hostmem::test {

inline constexpr TenantId alice{1}, bob{2};
inline constexpr ConnectionId first_client{11}, second_client{12};

struct ArenaFixture {
  explicit ArenaFixture(std::uint64_t budget_bytes = 16_MiB, std::uint64_t chunk_bytes = 64_MiB) {
    ArenaOptions options;
    options.budget_bytes = budget_bytes;
    options.chunk_bytes = chunk_bytes;
    options.clock = &clock;
    arena = HostArena::create(options).value();
  }

  Slot allocate(TenantId tenant, std::uint64_t bytes) {
    return arena->allocate(tenant, bytes).value();
  }
  Slot stage(ConnectionId owner, std::uint64_t bytes) {
    return arena->allocate_staging(alice, owner, bytes).value();
  }
  /// Slots of `bytes` until the budget refuses.
  std::vector<Slot> fill(TenantId tenant, std::uint64_t bytes) {
    std::vector<Slot> slots;
    while (auto slot = arena->allocate(tenant, bytes)) slots.push_back(*slot);
    return slots;
  }
  void free_all(const std::vector<Slot>& slots) {
    for (const Slot& slot : slots) arena->free_slot(slot);
  }
  std::uint64_t taken_bytes() const {
    const ArenaStats stats = arena->stats();
    return stats.chunk_bytes + stats.zombie_bytes + stats.prefaulted_bytes;
  }

  FakeClock clock;
  std::unique_ptr<HostArena> arena;
};

}  // namespace kvstrata::hostmem::test
