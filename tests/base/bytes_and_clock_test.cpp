#include <doctest/doctest.h>

#include <array>
#include <unordered_set>

#include "kvstrata/bytes.h"
#include "kvstrata/clock.h"
#include "kvstrata/id.h"

namespace kvstrata::test {

TEST_CASE("Rounding up reaches the next multiple and stays on one") {
  CHECK(round_up(0, 4096) == 0);
  CHECK(round_up(1, 4096) == 4096);
  CHECK(round_up(4096, 4096) == 4096);
  CHECK(round_up(4097, 4096) == 8192);
  CHECK(round_up((std::uint64_t{1} << 32) + 1, 4096) == (std::uint64_t{1} << 32) + 4096);
}

TEST_CASE("Integers are stored lowest byte first, at any address") {
  std::array<std::byte, 9> bytes{};
  store_le(bytes.data() + 1, std::uint32_t{0x01020304});
  CHECK(bytes[1] == std::byte{4});
  CHECK(bytes[4] == std::byte{1});
  CHECK(load_le<std::uint32_t>(bytes.data() + 1) == 0x01020304);
  ByteVector appended;
  append_le(appended, std::uint16_t{0xabcd});
  append_le(appended, std::uint8_t{1});
  CHECK(appended == ByteVector{std::byte{0xcd}, std::byte{0xab}, std::byte{1}});
}

TEST_CASE("Text and arrays are seen as their bytes and back") {
  CHECK(as_text(as_bytes("a\0b")) == std::string_view("a"));
  CHECK(as_bytes(std::string_view("a\0b", 3)).size() == 3);
  const std::array<std::uint32_t, 2> numbers{1, 2};
  CHECK(bytes_of(std::span<const std::uint32_t>(numbers)).size() == 8);
}

TEST_CASE("A fake clock moves when told, and its wall clock can be set alone") {
  FakeClock clock;
  const MonotonicTime start = clock.now();
  const std::uint64_t start_ms = clock.unix_ms();
  clock.advance(Milliseconds(250));
  CHECK(clock.now() - start == Milliseconds(250));
  CHECK(clock.unix_ms() == start_ms + 250);
  clock.set_unix_ms(5);
  CHECK(clock.unix_ms() == 5);
  CHECK(clock.now() - start == Milliseconds(250));
}

TEST_CASE("The system's monotonic clock never goes back, and its wall clock is past 2024") {
  const Clock& clock = Clock::system();
  const MonotonicTime first = clock.now();
  CHECK(clock.now() >= first);
  CHECK(clock.unix_ms() > 1'704'067'200'000);
}

TEST_CASE("Ids compare and hash by their number") {
  CHECK(ChunkId{1} < ChunkId{2});
  CHECK(ChunkId{1} == ChunkId{1});
  CHECK(std::unordered_set<ChunkId>{{1}, {2}, {1}}.size() == 2);
}

}  // namespace kvstrata::test
