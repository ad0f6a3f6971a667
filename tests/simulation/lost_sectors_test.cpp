// Every way in which a power cut can lose sectors of an append that was not synced.
#include <doctest/doctest.h>

#include <future>

#include "storage/record_read.h"
#include "storage/segment/record.h"
#include "tests/simulation/kit.h"

namespace kvstrata::simulation {

namespace {

constexpr std::uint64_t sector_bytes = 4096;

/// A record of so many sectors as a segment holds it, and what the index says of it.
struct Record {
  ByteVector bytes;
  storage::IndexEntry entry;
  BlockKey key;
};

Record record_of(const Name& name, std::uint64_t sectors, std::uint32_t generation) {
  Record record;
  const ByteVector identity = identity_of(name);
  // Small frames lie behind the head in its sector, large ones begin at the next.
  const std::uint64_t frame_bytes =
      sectors == 1 ? 3'000 : sectors * sector_bytes - sector_bytes - 100;
  const ByteVector frame = content_of(name, generation, frame_bytes);
  record.key = {NamespaceId{1}, digest_of(name.number), 0};
  storage::RecordHeader header{};
  header.kind = storage::RecordKind::block;
  header.ns = 1;
  header.segment = 3;
  header.generation = generation;
  header.offset = sector_bytes;
  header.digest = record.key.digest;
  header.frame_bytes = frame_bytes;
  header.frame_total_bytes = frame_bytes;
  header.extent_count = 1;
  header.raw_bytes = frame_bytes;
  header.payload_xxh3 = storage::checksum(frame);
  header.frame_xxh3 = storage::checksum(frame);
  const storage::RecordShape shape = storage::record_shape(identity.size(), frame_bytes, 0);
  record.bytes.resize(shape.record_bytes);
  storage::write_record_head(header, identity, record.bytes.data());
  std::ranges::copy(frame, record.bytes.begin() + static_cast<std::ptrdiff_t>(shape.frame_offset));
  record.entry.where = {SegmentId{3}, generation, sector_bytes, shape.record_bytes};
  record.entry.raw_bytes = record.entry.frame_bytes = frame_bytes;
  record.entry.payload_xxh3 = header.payload_xxh3;
  return record;
}

bool is_read(const Record& record, const ByteVector& lying_there) {
  storage::RecordRead read(storage::RecordKind::block, record.key, record.entry);
  std::ranges::copy(lying_there, read.transfers().front().buffer);
  return read.finish(true).ok();
}

}  // namespace

TEST_CASE("A record that lost any of its sectors is never read, whatever lies there instead") {
  for (std::uint64_t sectors = 1; sectors <= 12; ++sectors) {
    const Record record = record_of({0, 1}, sectors, 2);
    REQUIRE(record.bytes.size() == sectors * sector_bytes);
    // A record of an earlier life of the segment, as large as this one, or a segment never used.
    for (const ByteVector& before :
         {record_of({0, 1}, sectors, 1).bytes, ByteVector(record.bytes.size())}) {
      std::uint64_t read = 0;
      for (std::uint64_t kept = 0; kept < std::uint64_t{1} << sectors; ++kept) {
        ByteVector left = before;
        for (std::uint64_t i = 0; i < sectors; ++i) {
          if ((kept >> i & 1) == 0) continue;
          const auto at = static_cast<std::ptrdiff_t>(i * sector_bytes);
          std::copy_n(record.bytes.begin() + at, sector_bytes, left.begin() + at);
        }
        read += is_read(record, left) ? 1 : 0;
      }
      CAPTURE(sectors);
      CHECK(read == 1);  // the one that lost nothing
    }
  }
}

TEST_CASE("A store that lost any sectors of an append has all of before and nothing of it") {
  using Answer = Bench::Answer;
  constexpr std::uint64_t sectors = 7;  // a head and a frame of six
  constexpr std::uint64_t frame_bytes = (sectors - 1) * sector_bytes - 50;
  const Place place;
  Bench bench(place);
  bench.sizes.segment_bytes = 256_KiB;
  REQUIRE(bench.start());
  REQUIRE(bench.put(1).ok());
  for (std::uint64_t kept = 0; kept < std::uint64_t{1} << sectors; ++kept) {
    CAPTURE(kept);
    std::uint64_t asked = 0;
    bench.machine.choose_sectors([&] { return (kept >> asked++ & 1) != 0; });
    bench.machine.power().cut_at_point("before-data-sync", 1);
    CHECK_FALSE(bench.put(2, frame_bytes).ok());
    CHECK(asked >= sectors);
    bench.stop();
    REQUIRE(bench.start());
    CHECK(bench.get(1) == Answer::intact);
    CHECK(bench.get(2, frame_bytes) == Answer::absent);
    // What comes to lie on the remains is none the worse for them.
    const int next = 3 + static_cast<int>(kept);
    REQUIRE(bench.put(next).ok());
    CHECK(bench.get(next) == Answer::intact);
  }
}

}  // namespace kvstrata::simulation
