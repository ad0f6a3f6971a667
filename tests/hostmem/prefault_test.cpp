#include <sys/mman.h>

#include <algorithm>
#include <set>

#include "hostmem/prefaulter.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

namespace {

/// How many pages of the memory exist.
std::size_t pages_in_core(const SharedMemory& memory) {
  std::vector<unsigned char> present(memory.bytes() / 4096);
  REQUIRE(::mincore(memory.data(), memory.bytes(), present.data()) == 0);
  return static_cast<std::size_t>(
      std::count_if(present.begin(), present.end(), [](unsigned char p) { return (p & 1) != 0; }));
}

}  // namespace

TEST_CASE("Prefaulted memory has all its pages") {
  Prefaulter prefaulter;
  SharedMemory untouched = SharedMemory::create("test", 8_MiB).value();
  CHECK(pages_in_core(untouched) == 0);
  prefaulter.add(std::move(untouched));
  prefaulter.wait_until_touched();
  CHECK(pages_in_core(*prefaulter.take()) == 2048);
  CHECK_FALSE(prefaulter.take());
}

TEST_CASE("All that was added is taken back once, touched or not") {
  Prefaulter prefaulter;
  for (int i = 0; i < 8; ++i) prefaulter.add(SharedMemory::create("test", 6_MiB).value());
  CHECK(prefaulter.bytes_held() == 48_MiB);
  std::set<int> files;
  std::vector<SharedMemory> taken;
  while (auto memory = prefaulter.take()) {
    files.insert(memory->fd());
    taken.push_back(*std::move(memory));
  }
  CHECK(files.size() == 8);
  CHECK(prefaulter.bytes_held() == 0);
}

TEST_CASE("Prefaulting stops when its owner goes") {
  Prefaulter prefaulter;
  for (int i = 0; i < 4; ++i) prefaulter.add(SharedMemory::create("test", 64_MiB).value());
}

TEST_CASE("An allocation adopts memory made ahead, without new bytes") {
  ArenaFixture f;
  f.arena->prefault(8_MiB);
  const std::uint64_t ahead = f.arena->stats().prefaulted_bytes;
  CHECK(ahead > 6_MiB);
  CHECK(ahead <= 8_MiB);
  const Slot slot = f.allocate(alice, 256_KiB);
  const ArenaStats stats = f.arena->stats();
  CHECK(stats.prefaulted_bytes < ahead);
  CHECK(stats.prefaulted_bytes + stats.chunk_bytes <= ahead);
  CHECK(std::count(slot.data, slot.data + slot.bytes, std::byte{0}) == 256_KiB);
  CHECK(f.arena->find_chunk(slot.chunk)->slots == 8);
}

TEST_CASE("Adopted memory is cut to the chunk, also for slots that fit it badly") {
  ArenaFixture f;
  f.arena->prefault(8_MiB);
  const Slot slot = f.allocate(alice, 1500 * 1024);  // one slot, and half a megabyte to give back
  CHECK(f.arena->find_chunk(slot.chunk)->file_bytes == 1500 * 1024 + 4096);
  std::fill_n(slot.data, slot.bytes, std::byte{1});
  const Slot small = f.allocate(bob, 4096);  // the control area takes part of the 2 MiB
  CHECK(f.arena->find_chunk(small.chunk)->file_bytes <= 2_MiB + 4096);
}

TEST_CASE("Memory made ahead is within the budget and gives way to what doesn't fit it") {
  ArenaFixture f;
  f.arena->prefault(1_GiB);
  CHECK(f.taken_bytes() <= 16_MiB);
  CHECK(f.arena->stats().prefaulted_bytes > 12_MiB);
  CHECK(f.arena->allocate(alice, 15_MiB).ok());
  CHECK(f.arena->stats().prefaulted_bytes == 0);
  CHECK(f.taken_bytes() <= 16_MiB);
}

TEST_CASE("Adopted chunks of two tenants are two files") {
  ArenaFixture f;
  f.arena->prefault(8_MiB);
  CHECK(f.allocate(alice, 4096).chunk != f.allocate(bob, 4096).chunk);
}

}  // namespace kvstrata::hostmem::test
