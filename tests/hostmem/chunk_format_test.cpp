#include <unistd.h>

#include <cstring>
#include <functional>

#include "hostmem/chunk_view.h"
#include "hostmem/shared_memory.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

namespace {

ByteVector from_hex(std::string_view text) {
  ByteVector bytes;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == ' ') continue;
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
    ++i;
  }
  return bytes;
}

/// A file that a client might be sent, with one thing wrong.
Result<ChunkView> map_with(const std::function<void(ChunkHeader&)>& spoil) {
  ChunkHeader header;
  header.slot_bytes = 4096;
  header.slots = 2;
  header.data_offset = 4096;
  spoil(header);
  const SharedMemory file = SharedMemory::create("test", 3 * 4096).value();
  std::memcpy(file.data(), &header, sizeof header);
  return ChunkView::map(file.fd());
}

}  // namespace

TEST_CASE("The control area is the example of doc/shared-memory.md") {
  const ByteVector expected = from_hex(
      "4b 56 53 43 48 55 4e 4b 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 04 00 00 00 "
      "00 "
      "00 03 00 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 "
      "00 00 02 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 "
      "00 "
      "00 00 00");
  ArenaFixture f(16_MiB, 768_KiB);
  Slot slot_0 = f.allocate(alice, 256_KiB);
  Slot slot_1 = f.allocate(alice, 256_KiB);
  f.arena->publish(slot_0);
  f.arena->publish(slot_1);
  f.arena->free_slot(slot_1);
  slot_1 = f.allocate(alice, 256_KiB);
  f.arena->publish(slot_1);
  const ChunkInfo chunk = *f.arena->find_chunk(slot_0.chunk);
  CHECK(chunk.file_bytes == 790'528);
  ByteVector control(expected.size());
  REQUIRE(::pread(chunk.fd, control.data(), control.size(), 0) ==
          static_cast<ssize_t>(control.size()));
  CHECK(control == expected);
}

TEST_CASE("The control area grows by a page for every 512 slots") {
  CHECK(ChunkShape{4096, 504}.data_offset() == 4096);
  CHECK(ChunkShape{4096, 505}.data_offset() == 8192);
  CHECK(ChunkShape{4096, 505}.file_bytes() == 8192 + 505 * 4096);
}

TEST_CASE("A client maps a chunk as the header describes it") {
  ArenaFixture f;
  const Slot slot = f.allocate(alice, 5000);
  const ChunkInfo chunk = *f.arena->find_chunk(slot.chunk);
  const ChunkView view = ChunkView::map(chunk.fd).value();
  CHECK(view.chunk_id() == chunk.id.value);
  CHECK(view.shape().slots == chunk.slots);
  CHECK(view.shape().slot_bytes == 8192);
}

TEST_CASE("A client refuses a file that is not a chunk of its version") {
  CHECK(map_with([](ChunkHeader&) {}).ok());
  CHECK(map_with([](ChunkHeader& h) { h.version = 2; }).error().kind() == ErrorKind::unsupported);
  const std::vector<std::function<void(ChunkHeader&)>> faults = {
      [](ChunkHeader& h) { h.magic[0] = 'X'; },     [](ChunkHeader& h) { h.slots = 0; },
      [](ChunkHeader& h) { h.slots = 3; },          [](ChunkHeader& h) { h.slots = 0xffffffff; },
      [](ChunkHeader& h) { h.slot_bytes = 0; },     [](ChunkHeader& h) { h.slot_bytes = 4097; },
      [](ChunkHeader& h) { h.slot_bytes = 2_GiB; }, [](ChunkHeader& h) { h.data_offset = 8192; },
  };
  for (const auto& fault : faults) CHECK(map_with(fault).error().kind() == ErrorKind::corrupt);
}

TEST_CASE("A client refuses a file shorter than a header, or none at all") {
  CHECK_FALSE(ChunkView::map(-1).ok());
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  CHECK(ChunkView::map(::fileno(file)).error().kind() == ErrorKind::corrupt);
  (void)std::fclose(file);
}

}  // namespace kvstrata::hostmem::test
