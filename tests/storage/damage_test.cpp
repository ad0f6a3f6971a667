// Damaged disks: what is hurt is a miss, is counted, and leaves the index; the rest goes on.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "storage/device/faulty_device.h"
#include "storage/segment/record.h"
#include "tests/base/seed.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

void expect_corrupt(Shelf& shelf, int n) {
  const Result<ReadRecord> record = shelf.read(n);
  REQUIRE_FALSE(record.ok());
  CHECK(record.error().kind() == ErrorKind::corrupt);
  CHECK_FALSE(shelf.has(n));
  CHECK(shelf.read(n).error().kind() == ErrorKind::not_found);
}

}  // namespace

TEST_CASE("A record whose header or identity was damaged is corrupt, removed and counted") {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{40}, std::uint64_t{100},
                                     std::uint64_t{192}, std::uint64_t{210}}) {
    CAPTURE(offset);
    Shelf shelf;
    shelf.put(1);
    shelf.put(2);
    const RecordLocation where = shelf.entry(1)->where;
    damage(segment_path(shelf, where.segment), where.offset + offset);
    const std::uint64_t live = shelf->stats().live_bytes;
    expect_corrupt(shelf, 1);
    CHECK(shelf.intact(2));
    const StoreStats stats = shelf->stats();
    CHECK(stats.corrupt_records == 1);
    CHECK(stats.blocks == 1);
    CHECK(stats.live_bytes == live - where.bytes);
    shelf.put(1);
    CHECK(shelf.intact(1));
  }
}

TEST_CASE("A removed corrupt block is told to the callback") {
  Shelf shelf;
  Awaited<std::vector<BlockKey>> dropped;
  shelf->on_dropped([set = dropped.setter()](std::span<const BlockKey> keys) {
    set({keys.begin(), keys.end()});
  });
  shelf.put(1);
  const RecordLocation where = shelf.entry(1)->where;
  damage(segment_path(shelf, where.segment), where.offset);
  expect_corrupt(shelf, 1);
  CHECK(dropped.get() == std::vector<BlockKey>{shelf.key(1)});
}

TEST_CASE("Another record in the place of one's own is corrupt, however whole it is") {
  Shelf shelf;
  shelf.put(1);
  shelf.put(2);
  const RecordLocation one = shelf.entry(1)->where;
  const RecordLocation two = shelf.entry(2)->where;
  REQUIRE(one.segment == two.segment);
  REQUIRE(one.bytes == two.bytes);
  // Copies record 2 over record 1, as a misdirected write would.
  std::fstream file(segment_path(shelf, one.segment),
                    std::ios::in | std::ios::out | std::ios::binary);
  std::vector<char> bytes(two.bytes);
  file.seekg(static_cast<std::streamoff>(two.offset));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.seekp(static_cast<std::streamoff>(one.offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  expect_corrupt(shelf, 1);
  CHECK(shelf.intact(2));
}

TEST_CASE("A damaged extent makes the whole chain corrupt") {
  Shelf shelf;
  shelf.put(1, {.bytes = 2_MiB});
  const IndexEntry entry = *shelf.entry(1);
  REQUIRE(entry.more.size() > 2);
  damage(segment_path(shelf, entry.more[1].segment), entry.more[1].offset + 16);
  expect_corrupt(shelf, 1);
  CHECK(shelf->stats().live_bytes == 4096);
}

TEST_CASE("A read that fails for the moment is an io error and keeps the block") {
  const auto script = std::make_shared<FaultScript>();
  StoreOptions options = Shelf::small_options();
  options.wrap_device = [script](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    return std::make_unique<FaultyDevice>(std::move(device), script);
  };
  Shelf shelf(options);
  shelf.put(1);
  script->add({.target = FaultTarget::read});
  const Result<ReadRecord> record = shelf.read(1);
  REQUIRE_FALSE(record.ok());
  CHECK(record.error().kind() == ErrorKind::io);
  CHECK(shelf->stats().read_errors == 1);
  CHECK(shelf.intact(1));
}

TEST_CASE("Short reads never deliver old bytes") {
  const auto script = std::make_shared<FaultScript>(test::test_seed("storage damage"));
  StoreOptions options = Shelf::small_options();
  options.wrap_device = [script](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    return std::make_unique<FaultyDevice>(std::move(device), script);
  };
  Shelf shelf(options);
  shelf.put_chain(0, 99);
  script->set_rates({.read_cut = 0.1, .read_fails = 0.02});
  int intact = 0;
  for (int round = 0; round < 10; ++round) {
    for (int n = 0; n < 100; ++n) {
      const Result<ReadRecord> record = shelf.read(n);
      if (!record) {
        CHECK(record.error().kind() == ErrorKind::io);
        continue;
      }
      CHECK(std::ranges::equal(record->frame, content_of(n, 64_KiB)));
      ++intact;
    }
  }
  CHECK(intact > 700);
  CHECK(shelf.count(0, 99) == 100);
}

TEST_CASE("A deleted segment file is noticed at start; its blocks go, the rest stays") {
  Shelf shelf;
  shelf.put_chain(0, 59);
  const SegmentId second = shelf.entry(20)->where.segment;
  int first_lost = 20;
  while (shelf.entry(first_lost - 1)->where.segment == second) --first_lost;
  REQUIRE(first_lost > 0);
  shelf.close();
  std::filesystem::remove(segment_path(shelf, second));
  shelf.reopen();
  shelf.put(100);  // the writer has done its errands before
  for (int n = 0; n < first_lost; ++n) CHECK(shelf.intact(n));
  CHECK(shelf.count(first_lost, 59) == 0);  // lost, or continuing what is lost
  CHECK(shelf.intact(100));
  CHECK(shelf->stats().condemned_segments == 1);
}

TEST_CASE("A segment file deleted or cut while the store is open is a miss; the store lives on") {
  for (const bool cut : {false, true}) {
    CAPTURE(cut);
    Shelf shelf;
    for (int n = 0; n < 60; ++n) shelf.start_put(n);
    REQUIRE(shelf->flush().ok());
    const SegmentId second = shelf.entry(20)->where.segment;
    shelf.reopen();  // so that no descriptor keeps the file
    const std::string path = segment_path(shelf, second);
    if (cut) {
      std::filesystem::resize_file(path, 64_KiB);
    } else {
      std::filesystem::remove(path);
    }
    CHECK(shelf.read(20).error().kind() == ErrorKind::corrupt);
    for (int n = 1000; n < 2500; n += 50) {
      for (int i = n; i < n + 50; ++i) shelf.start_put(i);
      REQUIRE(shelf->flush().ok());
    }
    CHECK(shelf.intact(2499));
    CHECK(shelf.disk_usage() <= 64_MiB);
    CHECK(shelf.count(0, 2499) == static_cast<int>(shelf->stats().blocks));
  }
}

TEST_CASE("Holes in a segment file are misses, and reclaim gets over them") {
  Shelf shelf;
  for (int n = 0; n < 60; ++n) shelf.start_put(n);
  REQUIRE(shelf->flush().ok());
  const BlockKey held = shelf.key(3);
  shelf->hold({&held, 1});
  const std::string path = segment_path(shelf, shelf.entry(3)->where.segment);
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(path, 1_MiB);
  for (int n = 1000; n < 2500; n += 50) {
    for (int i = n; i < n + 50; ++i) shelf.start_put(i);
    REQUIRE(shelf->flush().ok());
  }
  CHECK_FALSE(shelf.has(3));
  CHECK(shelf->stats().corrupt_records >= 1);
  CHECK(shelf.intact(2499));
}

TEST_CASE("A damaged frame is the codec's to find; reclaim doesn't carry it on") {
  Shelf shelf;
  shelf.put(1);
  const BlockKey key = shelf.key(1);
  const RecordLocation where = shelf.entry(1)->where;
  damage(segment_path(shelf, where.segment), where.offset + 8192);
  CHECK(shelf.read(1).ok());
  shelf->hold({&key, 1});
  for (int n = 1000; n < 2500; n += 50) {
    for (int i = n; i < n + 50; ++i) shelf.start_put(i);
    REQUIRE(shelf->flush().ok());
  }
  CHECK_FALSE(shelf.has(1));
}

}  // namespace kvstrata::storage::testing
