// The keys and values of the index (doc/index-format.md).
#include <doctest/doctest.h>

#include <algorithm>

#include "storage/index/block_value.h"
#include "storage/index/index_keys.h"
#include "storage/index/namespace_value.h"
#include "storage/index/segment_value.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

IndexEntry an_entry() {
  IndexEntry entry;
  entry.where = {SegmentId{42}, 5, 8192, 69632};
  entry.parent.emplace();
  entry.parent->bytes.fill(std::byte{0x22});
  entry.raw_bytes = 131072;
  entry.frame_bytes = 65536;
  entry.payload_xxh3 = 0x0102030405060708;
  entry.codec = 2;
  entry.table = TableId{3};
  entry.created_unix_ms = 1'800'000'000'000;
  entry.expires_unix_ms = 1'800'000'060'000;
  entry.pinned = true;
  return entry;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += digits[static_cast<unsigned char>(c) >> 4];
    hex += digits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

BlockKey a_key() {
  BlockKey key{NamespaceId{7}, {}, 1};
  key.digest.bytes.fill(std::byte{0x11});
  return key;
}

}  // namespace

TEST_CASE("A block value parses to what was written, with and without extents") {
  IndexEntry entry = an_entry();
  CHECK(*parse_block_value(block_value(entry)) == entry);
  entry.parent.reset();
  entry.pinned = false;
  CHECK(*parse_block_value(block_value(entry)) == entry);
  entry.more = {{SegmentId{43}, 1, 4096, 4096}, {SegmentId{44}, 2, 4096, 262144}};
  CHECK(*parse_block_value(block_value(entry)) == entry);
}

TEST_CASE("The worked examples of the format page are what the code writes") {
  const std::string page = "doc/index-format.md";
  CHECK(hex_of(block_key(a_key())) == read_example(page, "block key"));
  CHECK(hex_of(block_value(an_entry())) == read_example(page, "block value"));
  SegmentValue segment;
  segment.state = SegmentState::sealed;
  segment.generation = 5;
  segment.bytes = 4_MiB;
  segment.tail = 4'190'208;
  segment.live_bytes = 2_MiB;
  segment.live_blocks = 30;
  segment.order = 99;
  segment.sequence_end = 1001;
  CHECK(hex_of(segment_value(segment)) == read_example(page, "segment value"));
}

TEST_CASE("A value cut anywhere or made longer is corrupt") {
  const std::string good = block_value(an_entry());
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(parse_block_value(good.substr(0, length)).ok());
  }
  CHECK_FALSE(parse_block_value(good + '\0').ok());
  CHECK_FALSE(parse_block_value("\x02" + good.substr(1)).ok());
  const std::string segment = segment_value({});
  CHECK_FALSE(parse_segment_value(segment.substr(1)).ok());
  CHECK_FALSE(parse_segment_value(segment + '\0').ok());
  CHECK(parse_segment_value(segment).ok());
}

TEST_CASE("Keys sort by namespace, digest and group, and children lie behind their parent") {
  const BlockKey key = a_key();
  BlockKey later = key;
  later.group = 256;
  CHECK(block_key(key) < block_key(later));
  later = key;
  later.ns = NamespaceId{256};
  CHECK(block_key(key) < block_key(later));
  CHECK(*parse_block_key(block_key(key)) == key);
  Hash256 child;
  child.bytes.fill(std::byte{0x33});
  CHECK(child_key(key, child).starts_with(block_key(key)));
  CHECK(*parse_child_of(child_key(key, child)) == child);
  CHECK(placement_key(SegmentId{1}, 4096) < placement_key(SegmentId{1}, 1_MiB));
  CHECK(*parse_placement_offset(placement_key(SegmentId{9}, 123'456'789)) == 123'456'789);
  CHECK_FALSE(parse_block_key("short").has_value());
}

TEST_CASE("An epoch's key tells tenant and model apart") {
  CHECK(epoch_key("a", "bc") != epoch_key("ab", "c"));
  const auto name = parse_epoch_key(epoch_key("ab", "c"));
  REQUIRE(name.has_value());
  CHECK(name->tenant == "ab");
  CHECK(name->fingerprint == "c");
  CHECK_FALSE(parse_epoch_key("epoch/").has_value());
  CHECK_FALSE(parse_epoch_key("other").has_value());
}

TEST_CASE("Placements, tables and numbers parse to what was written") {
  const Placement placement{RecordKind::table, record_name(TableName{NamespaceId{7}, TableId{3}})};
  CHECK(*parse_placement_value(placement_value(placement)) == placement);
  CHECK(table_of(placement.key) == TableName{NamespaceId{7}, TableId{3}});
  CHECK_FALSE(parse_placement_value("\x01\x07").ok());
  const TableValue table{12, an_entry()};
  CHECK(*parse_table_value(table_value(table)) == table);
  CHECK(*parse_number_value(number_value(77)) == 77);
  CHECK_FALSE(parse_number_value("").ok());
}

TEST_CASE("A namespace's canonical bytes have one spelling only") {
  NamespaceSpec spec = a_namespace();
  spec.model.groups = {{GroupKind::full_attention, 24, 2, 64, 64, 0}};
  spec.extra_keys = {"", "x"};
  const ByteVector bytes = namespace_bytes(spec);
  const Result<NamespaceSpec> parsed = parse_namespace_bytes(bytes);
  REQUIRE(parsed.ok());
  CHECK(namespace_bytes(*parsed) == bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(parse_namespace_bytes(ByteView(bytes).first(length)).ok());
  }
  ByteVector twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  CHECK_FALSE(parse_namespace_bytes(twice).ok());
  CHECK_FALSE(parse_namespace_bytes({}).ok());
}

}  // namespace kvstrata::storage::testing
