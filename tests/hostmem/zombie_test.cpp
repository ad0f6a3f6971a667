#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

namespace {

/// An arena full of alice's blocks, all of whose chunks first_client maps, then emptied.
struct MappedByAClient : ArenaFixture {
  MappedByAClient() {
    slots = fill(alice, 1_MiB);
    for (const Slot& slot : slots) arena->chunk_sent(slot.chunk, first_client);
    free_all(slots);
  }
  std::vector<Slot> slots;
};

}  // namespace

TEST_CASE("A retired chunk that a client maps keeps its room until it is unmapped") {
  MappedByAClient f;
  const auto retired = f.arena->retire_empty_chunks(bob, 1_MiB);
  REQUIRE(retired.size() == 1);
  CHECK(retired[0].mapped_by == std::vector<ConnectionId>{first_client});
  CHECK(f.arena->stats().zombie_bytes > 0);
  CHECK_FALSE(f.arena->find_chunk(retired[0].chunk));
  CHECK(f.arena->allocate(bob, 1_MiB).error().kind() == ErrorKind::out_of_memory);

  f.arena->chunk_unmapped(retired[0].chunk, first_client);
  CHECK(f.arena->stats().zombie_bytes == 0);
  CHECK(f.arena->allocate(bob, 1_MiB).ok());
}

TEST_CASE("A zombie lives until the last of its clients unmapped it") {
  MappedByAClient f;
  f.arena->chunk_sent(f.slots[0].chunk, second_client);
  const auto retired = f.arena->retire_empty_chunks(bob, 1_MiB);
  REQUIRE(retired.size() == 1);
  REQUIRE(retired[0].chunk == f.slots[0].chunk);
  CHECK(retired[0].mapped_by.size() == 2);
  f.arena->chunk_unmapped(retired[0].chunk, first_client);
  CHECK(f.arena->stats().zombie_bytes > 0);
  f.arena->chunk_unmapped(retired[0].chunk, second_client);
  CHECK(f.arena->stats().zombie_bytes == 0);
}

TEST_CASE("A client that goes unmaps everything") {
  MappedByAClient f;
  CHECK(f.arena->retire_empty_chunks(bob, 1_MiB).size() == 1);
  f.arena->connection_closed(first_client);
  CHECK(f.arena->stats().zombie_bytes == 0);
  CHECK(f.arena->overdue(f.clock.now() + Milliseconds(1)).empty());
}

TEST_CASE("Saying unmapped twice, late, or for a chunk never sent changes nothing") {
  MappedByAClient f;
  const auto retired = f.arena->retire_empty_chunks(bob, 1_MiB);
  f.arena->chunk_unmapped(retired[0].chunk, second_client);
  f.arena->chunk_unmapped(ChunkId{999}, first_client);
  CHECK(f.arena->stats().zombie_bytes > 0);
  f.arena->chunk_unmapped(retired[0].chunk, first_client);
  f.arena->chunk_unmapped(retired[0].chunk, first_client);
  CHECK(f.arena->stats().zombie_bytes == 0);
}

TEST_CASE("Retiring again for the same need retires no more") {
  MappedByAClient f;
  CHECK(f.arena->retire_empty_chunks(bob, 1_MiB).size() == 1);
  CHECK(f.arena->retire_empty_chunks(bob, 1_MiB).empty());
}

TEST_CASE("Nothing is retired while a free slot serves the need") {
  MappedByAClient f;
  CHECK(f.arena->retire_empty_chunks(alice, 1_MiB).empty());
  CHECK(f.arena->allocate(alice, 1_MiB).ok());
}

TEST_CASE("Chunks that nobody maps are retired before those that clients map") {
  MappedByAClient f;
  f.arena->chunk_unmapped(f.slots.back().chunk, first_client);
  CHECK(f.arena->retire_empty_chunks(bob, 64_KiB).empty());
  CHECK(f.arena->stats().zombie_bytes == 0);
  CHECK(f.arena->allocate(bob, 64_KiB).ok());
}

TEST_CASE("The chunk that is empty for longest is retired first") {
  ArenaFixture f;
  const std::vector<Slot> slots = f.fill(alice, 1_MiB);
  const ChunkId oldest = slots.back().chunk;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) f.arena->free_slot(*slot);
  CHECK(f.arena->retire_empty_chunks(bob, 2_MiB).empty());
  CHECK_FALSE(f.arena->find_chunk(oldest));
  CHECK(f.arena->find_chunk(slots.front().chunk));
}

TEST_CASE("A chunk with a used slot is never retired") {
  ArenaFixture f;
  std::vector<Slot> slots = f.fill(alice, 1_MiB);
  const Slot kept = slots.front();
  slots.erase(slots.begin());
  f.free_all(slots);
  CHECK(f.arena->retire_empty_chunks(bob, 12_MiB).empty());
  CHECK(f.arena->find_chunk(kept.chunk));
  f.arena->free_slot(kept);
}

TEST_CASE("Retiring for staging works also where a read slot is free") {
  ArenaFixture f;
  std::vector<Slot> slots = f.fill(alice, 1_MiB);
  f.free_all(slots);
  CHECK(f.arena->allocate_staging(alice, first_client, 1_MiB).error().kind() ==
        ErrorKind::out_of_memory);
  CHECK(f.arena->retire_empty_chunks_for_staging(1_MiB).empty());
  CHECK(f.arena->allocate_staging(alice, first_client, 1_MiB).ok());
}

TEST_CASE("A client is overdue when its zombie was retired before the stated time") {
  MappedByAClient f;
  f.arena->retire_empty_chunks(bob, 1_MiB);
  const MonotonicTime retired_at = f.clock.now();
  f.clock.advance(Milliseconds(5000));
  CHECK(f.arena->overdue(retired_at).empty());
  CHECK(f.arena->overdue(f.clock.now()) == std::vector<ConnectionId>{first_client});
}

TEST_CASE("Setting the wall clock makes no client overdue") {
  MappedByAClient f;
  f.arena->retire_empty_chunks(bob, 1_MiB);
  for (const std::uint64_t unix_ms : {0ULL, 4'102'444'800'000ULL}) {
    f.clock.set_unix_ms(unix_ms);
    CHECK(f.arena->overdue(f.clock.now()).empty());
  }
}

}  // namespace kvstrata::hostmem::test
