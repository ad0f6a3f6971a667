// Memory of frames that is kept for the next ones.
#include "storage/device/frame_memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kvstrata/bytes.h"
#include "storage/device/aligned_buffer.h"

using namespace kvstrata;
using namespace kvstrata::storage;

TEST_CASE("A frame's memory is taken again by the next frame of about its size") {
  FrameMemory memory;
  std::byte* first = memory.take(1_MiB);
  memory.give_back(first, 1_MiB);
  std::byte* larger = memory.take(2_MiB);
  CHECK(larger != first);
  std::byte* second = memory.take(1_MiB - 4_KiB);
  CHECK(second == first);
  memory.give_back(second, 1_MiB - 4_KiB);
  memory.give_back(larger, 2_MiB);
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
}

TEST_CASE("What is kept stays within its bound, and the longest unused goes first") {
  FrameMemory memory;
  std::byte* oldest = memory.take(1_MiB);
  std::vector<std::byte*> others;
  for (std::uint64_t i = 0; i < FrameMemory::total_bytes_max / 2_MiB; ++i) {
    others.push_back(memory.take(2_MiB));
  }
  memory.give_back(oldest, 1_MiB);
  CHECK(memory.kept_bytes() == 1_MiB);
  for (std::byte* other : others) memory.give_back(other, 2_MiB);
  CHECK(memory.kept_bytes() == FrameMemory::total_bytes_max);  // without the oldest
}

TEST_CASE("Small and huge buffers are not kept") {
  FrameMemory memory;
  for (const std::uint64_t bytes : {32_KiB, 40_MiB}) {
    memory.give_back(memory.take(bytes), bytes);
    CHECK(memory.kept_bytes() == 0);
  }
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
