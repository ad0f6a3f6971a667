// The bytes of records, superblocks and file names (doc/segment-format.md).
#include "storage/segment/record.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "storage/segment/segment_file.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

RecordHeader a_header() {
  RecordHeader header{};
  header.kind = RecordKind::block;
  header.codec = 2;
  header.flags = record_has_parent;
  header.group = 1;
  header.ns = 7;
  header.table = 3;
  header.segment = 42;
  header.generation = 5;
  header.sequence = 1000;
  header.offset = 8192;
  header.digest.bytes.fill(std::byte{0x11});
  header.parent.bytes.fill(std::byte{0x22});
  header.frame_bytes = 100;
  header.frame_total_bytes = 100;
  header.extent_count = 1;
  header.raw_bytes = 200;
  header.payload_xxh3 = 0x0102030405060708;
  header.created_unix_ms = 1'800'000'000'000;
  return header;
}

ByteVector a_head(RecordHeader header, ByteView identity) {
  ByteVector bytes(sizeof(RecordHeader) + identity.size());
  write_record_head(header, identity, bytes.data());
  return bytes;
}

}  // namespace

TEST_CASE("A head parses to what was written") {
  const ByteVector identity = identity_of(3);
  RecordHeader header = a_header();
  const ByteVector bytes = a_head(header, identity);
  const Result<RecordHead> head = parse_record_head(bytes);
  REQUIRE(head.ok());
  CHECK(head->header.digest == header.digest);
  CHECK(head->header.parent == header.parent);
  CHECK(head->header.sequence == 1000);
  CHECK(head->header.record_bytes == 4096);
  CHECK(std::ranges::equal(head->identity, identity));
}

TEST_CASE("The worked example of the format page is what the code writes") {
  RecordHeader header = a_header();
  const ByteVector identity = {std::byte{0xaa}, std::byte{0xbb}, std::byte{0xcc}, std::byte{0xdd}};
  const ByteVector bytes = a_head(header, identity);
  std::string hex;
  for (const std::byte b : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    hex += digits[std::to_integer<unsigned>(b) >> 4];
    hex += digits[std::to_integer<unsigned>(b) & 15];
  }
  CHECK(hex.size() == 408);
  CHECK(hex == read_example("doc/segment-format.md", "record head"));
}

TEST_CASE("Any flipped bit of a head is noticed") {
  const ByteVector good = a_head(a_header(), identity_of(3));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    ByteVector bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    CHECK_FALSE(parse_record_head(bad).ok());
  }
}

TEST_CASE("A cut head is noticed at every length") {
  const ByteVector good = a_head(a_header(), identity_of(3));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(parse_record_head(ByteView(good).first(length)).ok());
  }
}

TEST_CASE("A newer version is unsupported, not corrupt") {
  ByteVector bytes = a_head(a_header(), {});
  bytes[8] = std::byte{2};
  CHECK(parse_record_head(bytes).error().kind() == ErrorKind::unsupported);
}

TEST_CASE("Fields that contradict each other are corrupt even under a right checksum") {
  const auto broken = [](const std::function<void(RecordHeader&)>& change) {
    RecordHeader header = a_header();
    change(header);
    return !parse_record_head(a_head(header, {})).ok();
  };
  CHECK_FALSE(broken([](RecordHeader&) {}));
  CHECK(broken([](RecordHeader& h) { h.kind = static_cast<RecordKind>(0); }));
  CHECK(broken([](RecordHeader& h) { h.kind = static_cast<RecordKind>(4); }));
  CHECK(broken([](RecordHeader& h) { h.flags = 4; }));
  CHECK(broken([](RecordHeader& h) { h.offset = 100; }));
  CHECK(broken([](RecordHeader& h) { h.extent_count = 0; }));
  CHECK(broken([](RecordHeader& h) { h.extent_index = 1; }));
  CHECK(broken([](RecordHeader& h) { h.extent_count = extents_max + 1; }));
  CHECK(broken([](RecordHeader& h) { h.frame_total_bytes = 99; }));
  CHECK(broken([](RecordHeader& h) { h.frame_total_bytes = 101; }));
  CHECK(broken([](RecordHeader& h) { h.frame_bytes = h.frame_total_bytes = ~std::uint64_t{0}; }));
}

TEST_CASE("Small frames share the head's page, large ones begin a page") {
  CHECK(record_shape(64, 100, 0).frame_offset == 320);
  CHECK(record_shape(64, 100, 0).record_bytes == 4096);
  CHECK(record_shape(64, 3776, 0).record_bytes == 4096);
  CHECK(record_shape(64, 3777, 0).record_bytes == 8192);
  CHECK(record_shape(64, 32_KiB, 0).frame_offset == 320);
  CHECK(record_shape(64, 32_KiB + 1, 0).frame_offset == 4096);
  CHECK(record_shape(0, 100, 1).frame_offset == 4096);
  CHECK(record_shape(4096, 1_MiB, 0).frame_offset == 8192);
}

TEST_CASE("Extents cover a frame exactly once, each within the limit") {
  constexpr std::uint64_t limit = 256_KiB;
  for (const int identity_bytes : {0, 64, 4096, 9000}) {
    const auto identity = static_cast<std::uint64_t>(identity_bytes);
    for (std::uint64_t frame = 200_KiB; frame < 4_MiB; frame += 12'345) {
      const Result<ExtentPlan> plan = plan_extents(identity, frame, limit);
      REQUIRE(plan.ok());
      std::uint64_t covered = 0;
      for (std::uint16_t i = 0; i < plan->count; ++i) {
        CHECK(plan->frame_start_of(i) == covered);
        const std::uint64_t part = plan->frame_bytes_of(i, frame);
        CHECK(part > 0);
        CHECK(record_shape(i == 0 ? identity : 0, part, i).record_bytes <= limit);
        if (i + 1 < plan->count) CHECK((covered + part) % 4096 == 0);
        covered += part;
      }
      CHECK(covered == frame);
    }
  }
}

TEST_CASE("A frame of more than the largest chain is refused with the limit") {
  const Result<ExtentPlan> plan = plan_extents(0, 64 * 64_KiB, 64_KiB);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().kind() == ErrorKind::too_large);
  CHECK(plan.error().message().find("at most 3932160 bytes") != std::string::npos);
  CHECK(plan_extents(0, 3'932'160, 64_KiB)->count == 64);
  CHECK(plan_extents(identity_bytes_max + 1, 0, 64_KiB).error().kind() == ErrorKind::too_large);
}

TEST_CASE("A superblock parses to what was written; any flipped bit is noticed") {
  AlignedBuffer page(superblock_bytes);
  StoreId id;
  id.fill(std::byte{9});
  write_superblock(SegmentId{42}, 5, 4_MiB, id, 1234, page.bytes());
  const Result<Superblock> superblock = parse_superblock(page.bytes());
  REQUIRE(superblock.ok());
  CHECK(superblock->segment == 42);
  CHECK(superblock->generation == 5);
  CHECK(superblock->segment_bytes == 4_MiB);
  CHECK(superblock->store == id);
  for (std::size_t bit = 0; bit < sizeof(Superblock) * 8; ++bit) {
    page.bytes()[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    CHECK_FALSE(parse_superblock(page.bytes()).ok());
    page.bytes()[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  CHECK_FALSE(parse_superblock(ByteView(page.bytes()).first(100)).ok());
}

TEST_CASE("Only the exact name of a segment is a segment's name") {
  CHECK(segment_file_name(SegmentId{42}) == "00000042.seg");
  CHECK(parse_segment_file_name("00000042.seg") == SegmentId{42});
  CHECK(parse_segment_file_name(segment_file_name(SegmentId{4'294'967'295})) ==
        SegmentId{4'294'967'295});
  for (const std::string_view name :
       {"42.seg", "000000042.seg", "00000042.seg.old", "00000042", "0000004a.seg", "+0000042.seg",
        ".seg", "", "99999999999.seg"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_segment_file_name(name).has_value());
  }
}

}  // namespace kvstrata::storage::testing
