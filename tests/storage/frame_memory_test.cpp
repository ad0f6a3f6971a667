// The pool that frames take their memory from.
#include "storage/device/frame_memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kvstrata/bytes.h"
#include "storage/device/aligned_buffer.h"
#include "tests/base/seed.h"

using namespace kvstrata;
using namespace kvstrata::storage;

TEST_CASE("A frame's memory is taken again by the next frame") {
  FrameMemory memory;
  std::byte* first = memory.take(1_MiB);
  memory.give_back(first, 1_MiB);
  std::byte* larger = memory.take(2_MiB);
  CHECK(larger == first);
  std::byte* second = memory.take(1_MiB);
  CHECK(second == first + 2_MiB);
  memory.give_back(larger, 2_MiB);
  CHECK(memory.take(3_MiB) == second + 1_MiB);  // the gap is too small
  CHECK(memory.take(2_MiB) == first);
  CHECK(memory.touched_bytes() == 6_MiB);
}

TEST_CASE("Memory of every size is aligned, and all of it can be used") {
  FrameMemory memory;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t bytes = 4_KiB; bytes <= 80_MiB; bytes += bytes / 3) {
      std::byte* taken = memory.take(bytes);
      REQUIRE(taken != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(taken) % io_alignment == 0);
      std::memset(taken, 1, bytes);
      memory.give_back(taken, bytes);
    }
  }
  CHECK(memory.used_bytes() == 0);
}

TEST_CASE("Buffers in use never overlap, whatever is taken and given back") {
  struct Taken {
    std::byte* memory;
    std::uint64_t bytes;
    int mark;
  };
  FrameMemory memory;
  test::Random random(test::test_seed("frame memory"));
  std::vector<Taken> taken;
  const auto intact = [](const Taken& one) {
    const auto mark = static_cast<std::byte>(one.mark);
    return one.memory[0] == mark && one.memory[one.bytes / 2] == mark &&
           one.memory[one.bytes - 1] == mark;
  };
  for (int step = 0; step < 20'000; ++step) {
    const bool take = taken.empty() || random.below(5) < (taken.size() < 60 ? 3U : 2U);
    if (take) {
      Taken one{nullptr, (1 + random.below(2'000)) * 4_KiB, static_cast<int>(random.below(251))};
      one.memory = memory.take(one.bytes);
      REQUIRE(one.memory != nullptr);
      for (const std::uint64_t at : {std::uint64_t{0}, one.bytes / 2, one.bytes - 1}) {
        one.memory[at] = static_cast<std::byte>(one.mark);
      }
      taken.push_back(one);
    } else {
      std::swap(taken[random.below(taken.size())], taken.back());
      REQUIRE(intact(taken.back()));
      memory.give_back(taken.back().memory, taken.back().bytes);
      taken.pop_back();
    }
  }
  for (const Taken& one : taken) {
    CHECK(intact(one));
    memory.give_back(one.memory, one.bytes);
  }
  CHECK(memory.used_bytes() == 0);
}

TEST_CASE("What the pool has no room for comes from malloc and goes back to it") {
  FrameMemory memory;
  std::vector<std::byte*> all;
  for (std::uint64_t i = 0; i < FrameMemory::pool_bytes / 32_MiB; ++i) {
    all.push_back(memory.take(32_MiB));
    CHECK(memory.pooled(all.back()));
  }
  CHECK(memory.used_bytes() == FrameMemory::pool_bytes);
  std::byte* beyond = memory.take(1_MiB);
  REQUIRE(beyond != nullptr);
  CHECK_FALSE(memory.pooled(beyond));
  memory.give_back(beyond, 1_MiB);
  for (std::byte* one : all) memory.give_back(one, 32_MiB);
  CHECK(memory.used_bytes() == 0);
}

TEST_CASE("Small and huge buffers are not pooled") {
  FrameMemory memory;
  for (const std::uint64_t bytes : {32_KiB, 40_MiB}) {
    std::byte* taken = memory.take(bytes);
    CHECK_FALSE(memory.pooled(taken));
    memory.give_back(taken, bytes);
  }
}

TEST_CASE("An idle pool gives the kernel back what it touched beyond its bound") {
  FrameMemory memory;
  std::vector<std::byte*> all;
  for (std::uint64_t bytes = 0; bytes < FrameMemory::idle_bytes + 64_MiB; bytes += 32_MiB) {
    all.push_back(memory.take(32_MiB));
    std::memset(all.back(), 1, 32_MiB);
  }
  std::byte* const last = all.back();
  for (std::byte* one : all) {
    CHECK(memory.touched_bytes() == FrameMemory::idle_bytes + 64_MiB);
    memory.give_back(one, 32_MiB);
  }
  CHECK(memory.touched_bytes() == FrameMemory::idle_bytes);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = memory.take(32_MiB);
  CHECK(all.back() == last);
  CHECK(*last == std::byte{0});  // a fresh page
  for (std::byte* one : all) memory.give_back(one, 32_MiB);
}

TEST_CASE("An aligned buffer that is moved over another gives back the other's memory once") {
  AlignedBuffer kept(1_MiB);
  std::byte* const memory = kept.data();
  AlignedBuffer overwritten(1_MiB);
  overwritten = std::move(kept);
  CHECK(overwritten.data() == memory);
  CHECK(overwritten.size() == 1_MiB);
  CHECK(kept.data() == nullptr);  // NOLINT(bugprone-use-after-move)
  const AlignedBuffer next(1_MiB);
  CHECK(next.data() != memory);
}
