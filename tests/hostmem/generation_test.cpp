#include <atomic>
#include <thread>

#include "hostmem/chunk_view.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

TEST_CASE("A slot's generation is odd until published, and never the same again") {
  ArenaFixture f;
  std::uint64_t last = 0;
  for (int round = 0; round < 100; ++round) {
    Slot slot = f.allocate(alice, 4096);
    CHECK(slot.generation % 2 == 1);
    CHECK(slot.generation > last);
    last = slot.generation;
    if (round % 3 != 0) {  // some are given back unpublished, as a failed load does
      f.arena->publish(slot);
      CHECK(slot.generation == last + 1);
      last = slot.generation;
    }
    f.arena->free_slot(slot);
  }
}

TEST_CASE("A reader is told that its lease expired once its slot was freed") {
  ArenaFixture f;
  Slot slot = f.allocate(alice, 4096);
  store_le(slot.data, std::uint64_t{42});
  const ChunkView view = ChunkView::map(f.arena->find_chunk(slot.chunk)->fd).value();
  std::array<std::byte, 8> copy{};
  CHECK(view.copy_out(slot.index, slot.generation, copy).error().kind() ==
        ErrorKind::lease_expired);  // not published yet
  f.arena->publish(slot);
  CHECK(view.copy_out(slot.index, slot.generation, copy).ok());
  CHECK(load_le<std::uint64_t>(copy.data()) == 42);

  f.arena->free_slot(slot);
  CHECK(view.copy_out(slot.index, slot.generation, copy).error().kind() ==
        ErrorKind::lease_expired);
  Slot next = f.allocate(alice, 4096);
  REQUIRE(next.data == slot.data);
  f.arena->publish(next);
  CHECK(view.check(slot.index, slot.generation).error().kind() == ErrorKind::lease_expired);
  CHECK(view.check(next.index, next.generation).ok());
}

TEST_CASE("A reader is told when its slot is freed while it reads") {
  ArenaFixture f;
  Slot slot = f.allocate(alice, 4096);
  f.arena->publish(slot);
  const ChunkView view = ChunkView::map(f.arena->find_chunk(slot.chunk)->fd).value();
  const Status status = view.read(slot.index, slot.generation, [&](ByteView bytes) {
    CHECK(bytes.size() == 4096);
    f.arena->free_slot(slot);
  });
  CHECK(status.error().kind() == ErrorKind::lease_expired);
}

TEST_CASE("A reader beyond the slots or their length is refused") {
  ArenaFixture f;
  Slot slot = f.allocate(alice, 4096);
  f.arena->publish(slot);
  const ChunkView view = ChunkView::map(f.arena->find_chunk(slot.chunk)->fd).value();
  ByteVector copy(4097);
  CHECK(view.copy_out(slot.index, slot.generation, copy).error().kind() ==
        ErrorKind::invalid_argument);
  CHECK(view.check(view.shape().slots, 2).error().kind() == ErrorKind::invalid_argument);
}

namespace {

constexpr std::uint64_t words = 512;
constexpr int contents = 20'000;

/// Every word of the block of a generation is that generation. Relaxed atomics stand for the plain
/// copy, which is a race by design.
void write_block(const Slot& slot, std::uint64_t value) {
  auto* at = reinterpret_cast<std::uint64_t*>(slot.data);
  for (std::uint64_t i = 0; i < words; ++i) __atomic_store_n(at + i, value, __ATOMIC_RELAXED);
}

/// How many words differ from `generation`.
std::uint64_t wrong_words(ByteView block, std::uint64_t generation) {
  const auto* at = reinterpret_cast<const std::uint64_t*>(block.data());
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < words; ++i) {
    wrong += __atomic_load_n(at + i, __ATOMIC_RELAXED) != generation ? 1 : 0;
  }
  return wrong;
}

}  // namespace

TEST_CASE("A reader never accepts bytes of another content, however the writer runs") {
  ArenaFixture f;
  Slot slot = f.allocate(alice, words * 8);
  const ChunkView view = ChunkView::map(f.arena->find_chunk(slot.chunk)->fd).value();
  const std::uint32_t index = slot.index;
  std::atomic<std::uint64_t> told{0};
  std::atomic<bool> done{false};
  std::uint64_t accepted = 0, accepted_wrong = 0;

  std::thread reader([&] {
    bool last_round = false;
    while (!last_round) {
      last_round = done.load();
      const std::uint64_t generation = told.load();
      std::uint64_t wrong = 0;
      const Status status = view.read(
          index, generation, [&](ByteView block) { wrong = wrong_words(block, generation); });
      if (!status) continue;
      ++accepted;
      accepted_wrong += wrong;
    }
  });
  for (int i = 0; i < contents; ++i) {
    write_block(slot, slot.generation + 1);
    f.arena->publish(slot);
    told = slot.generation;
    if (i + 1 == contents) break;
    f.arena->free_slot(slot);
    slot = f.allocate(alice, words * 8);
  }
  done = true;
  reader.join();
  CHECK(accepted > 0);
  CHECK(accepted_wrong == 0);
}

}  // namespace kvstrata::hostmem::test
