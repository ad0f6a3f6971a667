#include <cstring>

#include "hostmem/chunk_format.h"
#include "tests/base/process.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

using kvstrata::test::aborts;

TEST_CASE("A budget below 16 MiB is refused") {
  ArenaOptions options;
  options.budget_bytes = 16_MiB - 1;
  CHECK(HostArena::create(options).error().kind() == ErrorKind::invalid_argument);
}

TEST_CASE("Slots are the length rounded up to pages, and page aligned") {
  ArenaFixture f;
  for (const std::uint64_t bytes : {0ULL, 1ULL, 4095ULL, 4096ULL, 4097ULL, 262144ULL}) {
    const Slot slot = f.allocate(alice, bytes);
    CHECK(slot.bytes == (bytes <= 4096 ? 4096 : round_up(bytes, 4096)));
    CHECK(slot.bytes == f.arena->size_class(bytes));
    CHECK(slot.offset % 4096 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(slot.data) % 4096 == 0);
  }
}

TEST_CASE("Blocks above 1 GiB are refused, whatever the budget") {
  ArenaFixture f(4_GiB);
  CHECK(f.arena->allocate(alice, 1_GiB).ok());
  CHECK(f.arena->allocate(alice, 1_GiB + 1).error().kind() == ErrorKind::too_large);
  CHECK(f.arena->allocate_staging(alice, first_client, 1_GiB + 1).error().kind() ==
        ErrorKind::too_large);
}

TEST_CASE("Offsets beyond 4 GiB lead to the right slot") {
  ArenaFixture f(80_GiB, 10_GiB);
  std::vector<Slot> slots;
  for (int i = 0; i < 10; ++i) {
    slots.push_back(f.allocate(alice, 1_GiB));
    store_le(slots.back().data, std::uint64_t{0x5a00} + static_cast<std::uint64_t>(i));
  }
  CHECK(slots.back().chunk == slots.front().chunk);
  CHECK(slots.back().offset == 4096 + 9_GiB);
  for (int i = 0; i < 10; ++i) {
    CHECK(load_le<std::uint64_t>(slots[i].data) == std::uint64_t{0x5a00} + i);
  }
}

TEST_CASE("A full budget answers out of memory, and works again after a free") {
  ArenaFixture f;
  const std::vector<Slot> slots = f.fill(alice, 1_MiB);
  CHECK(slots.size() >= 14);
  CHECK(f.taken_bytes() <= 16_MiB);
  CHECK(f.arena->allocate(alice, 1_MiB).error().kind() == ErrorKind::out_of_memory);
  f.arena->free_slot(slots[3]);
  CHECK(f.allocate(alice, 1_MiB).data == slots[3].data);
}

TEST_CASE("A block larger than an eighth of the budget gets a chunk of its own") {
  ArenaFixture f;
  const Slot slot = f.allocate(alice, 10_MiB);
  CHECK(f.arena->find_chunk(slot.chunk)->slots == 1);
  CHECK(f.arena->find_chunk(slot.chunk)->file_bytes == 10_MiB + 4096);
}

TEST_CASE("A chunk is no larger than an eighth of the budget") {
  ArenaFixture f(64_MiB);
  const ChunkInfo chunk = *f.arena->find_chunk(f.allocate(alice, 4096).chunk);
  CHECK(chunk.slots == 2048);
  CHECK(chunk.slot_bytes == 4096);
}

TEST_CASE("Free and used slots always sum to the total") {
  ArenaFixture f;
  const std::vector<Slot> slots = f.fill(alice, 256_KiB);
  CHECK(f.arena->stats().slots_used == slots.size());
  f.arena->free_slot(slots[5]);
  const ArenaStats stats = f.arena->stats();
  CHECK(stats.slots_used == slots.size() - 1);
  CHECK(stats.slots_used + stats.slots_free == stats.slots_total);
  CHECK(stats.slot_bytes_used == stats.slots_used * 256_KiB);
}

TEST_CASE("The used slots of a chunk are named") {
  ArenaFixture f;
  const Slot a = f.allocate(alice, 64_KiB);
  const Slot b = f.allocate(alice, 64_KiB);
  const Slot c = f.allocate(alice, 64_KiB);
  f.arena->free_slot(b);
  CHECK(f.arena->used_slots(a.chunk) == std::vector<std::uint32_t>{a.index, c.index});
  CHECK(f.arena->used_slots(ChunkId{999}).empty());
}

TEST_CASE("Freeing a slot twice aborts") {
  ArenaFixture f;
  const Slot slot = f.allocate(alice, 4096);
  f.arena->free_slot(slot);
  CHECK(aborts([&] { f.arena->free_slot(slot); }));
}

TEST_CASE("Freeing a slot that was given to somebody else since aborts") {
  ArenaFixture f;
  const Slot slot = f.allocate(alice, 4096);
  f.arena->free_slot(slot);
  const Slot again = f.allocate(alice, 4096);
  CHECK(again.data == slot.data);
  CHECK(aborts([&] { f.arena->free_slot(slot); }));
  f.arena->free_slot(again);
}

TEST_CASE("A slot may be freed by the copy made before it was published") {
  ArenaFixture f;
  const Slot before = f.allocate(alice, 4096);
  Slot slot = before;
  f.arena->publish(slot);
  f.arena->free_slot(before);
  CHECK(f.arena->stats().slots_used == 0);
}

TEST_CASE("Publishing twice, or a freed slot, aborts") {
  ArenaFixture f;
  Slot slot = f.allocate(alice, 4096);
  f.arena->publish(slot);
  CHECK(aborts([&] { f.arena->publish(slot); }));
  f.arena->free_slot(slot);
  CHECK(aborts([&] { f.arena->publish(slot); }));
}

TEST_CASE("Freeing a read slot as staging aborts, and the other way round") {
  ArenaFixture f;
  const Slot slot = f.allocate(alice, 4096);
  const Slot staged = f.stage(first_client, 4096);
  CHECK(aborts([&] { f.arena->free_staging(slot); }));
  CHECK(aborts([&] { f.arena->free_slot(staged); }));
}

TEST_CASE("Two tenants never share a chunk") {
  ArenaFixture f;
  for (const std::uint64_t bytes : {4096ULL, 65536ULL}) {
    CHECK(f.allocate(alice, bytes).chunk != f.allocate(bob, bytes).chunk);
  }
  CHECK(f.arena->find_chunk(f.allocate(bob, 4096).chunk)->tenant == bob);
}

TEST_CASE("Memory moves to another tenant only in a new file") {
  ArenaFixture f;
  const std::vector<Slot> slots = f.fill(alice, 1_MiB);
  std::memset(slots[0].data, 0xaa, slots[0].bytes);
  f.free_all(slots);
  CHECK(f.arena->allocate(bob, 1_MiB).error().kind() == ErrorKind::out_of_memory);
  CHECK(f.arena->retire_empty_chunks(bob, 1_MiB).empty());
  const Slot slot = f.allocate(bob, 1_MiB);
  for (const Slot& old : slots) CHECK(slot.chunk != old.chunk);
  CHECK(std::count(slot.data, slot.data + slot.bytes, std::byte{0}) == 1_MiB);
}

TEST_CASE("Staging chunks belong to one connection and count towards the budget") {
  ArenaFixture f;
  const Slot a = f.stage(first_client, 64_KiB);
  const Slot b = f.stage(second_client, 64_KiB);
  CHECK(a.chunk != b.chunk);
  CHECK(a.chunk == f.stage(first_client, 64_KiB).chunk);
  CHECK(f.arena->find_chunk(a.chunk)->kind == ChunkKind::staging);
  CHECK(f.arena->stats().staging_bytes == f.taken_bytes());
  CHECK(aborts([&] { f.arena->chunk_sent(a.chunk, second_client); }));
}

TEST_CASE("A closed connection's staging memory goes, used slots included") {
  ArenaFixture f;
  const Slot mine = f.stage(first_client, 64_KiB);
  const Slot other = f.stage(second_client, 64_KiB);
  f.arena->chunk_sent(mine.chunk, first_client);
  f.arena->connection_closed(first_client);
  CHECK_FALSE(f.arena->find_chunk(mine.chunk));
  CHECK(f.arena->find_chunk(other.chunk));
  CHECK(f.arena->stats().slots_used == 1);
  CHECK(f.arena->stats().zombie_bytes == 0);
  f.arena->free_staging(other);
}

}  // namespace kvstrata::hostmem::test
