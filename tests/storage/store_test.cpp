// What a store promises its callers: blocks come back as they were put, and only as they were put.
#include "storage/store.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "storage/device/recording_device.h"
#include "storage/device/throttled_device.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

TEST_CASE("A block that was put is found and read back bit by bit") {
  Shelf shelf(Shelf::small_options(), Medium::disk);
  shelf.put(1);
  CHECK(shelf.has(1));
  CHECK(shelf.intact(1));
  CHECK_FALSE(shelf.has(2));
}

TEST_CASE("Frames of every awkward length come back bit by bit") {
  Shelf shelf(Shelf::small_options(), Medium::disk);
  const std::vector<std::uint64_t> lengths = {0,          1,      63,         64,         3895,
                                              3896,       3897,   4095,       4096,       4097,
                                              32_KiB - 1, 32_KiB, 32_KiB + 1, 200_KiB + 7};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const int n = static_cast<int>(i);
    shelf.put(n, {.bytes = lengths[i]});
    CHECK(shelf.intact(n, lengths[i]));
  }
}

TEST_CASE("A frame larger than a quarter segment is a chain of extents and comes back whole") {
  Shelf shelf(Shelf::small_options(), Medium::disk);
  const std::vector<std::uint64_t> lengths = {256_KiB,     248_KiB + 1, 248_KiB,
                                              496_KiB + 5, 496_KiB,     3_MiB + 17};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const int n = static_cast<int>(i);
    shelf.put(n, {.bytes = lengths[i]});
    CHECK(shelf.intact(n, lengths[i]));
    CHECK(shelf.entry(n)->more.empty() == (lengths[i] <= 248_KiB));
  }
}

TEST_CASE("A frame too large for the store is refused by name of the limit") {
  Shelf shelf(Shelf::small_options(), Medium::disk);
  const Result<IndexEntry> entry = shelf.try_put(1, {.bytes = 40_MiB});
  REQUIRE_FALSE(entry.ok());
  CHECK(entry.error().kind() == ErrorKind::too_large);
  CHECK(entry.error().message().find("at most") != std::string::npos);
}

TEST_CASE(
    "Of many large records few are read at once, so that the first is there long before the last") {
  const auto recording = std::make_shared<Recording>();
  StoreOptions options = Shelf::small_options();
  options.disk_budget_bytes = 512_MiB;
  options.segment_bytes = 32_MiB;
  options.wrap_device = [&](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    auto slow = std::make_unique<ThrottledDevice>(std::move(device),
                                                  ThrottleOptions{.latency = Milliseconds{20}});
    return std::make_unique<RecordingDevice>(std::move(slow), recording);
  };
  Shelf shelf(options);
  constexpr int blocks = 10;
  for (int n = 0; n < blocks; ++n) shelf.put(n, {.bytes = 4_MiB});
  recording->clear();
  std::vector<Awaited<Result<ReadRecord>>> reads(blocks);
  for (int n = 0; n < blocks; ++n) {
    shelf->read(shelf.key(n), *shelf.entry(n), reads[n].setter());
  }
  for (auto& read : reads) CHECK(read.get().ok());
  std::uint64_t now = 0, most = 0;
  for (const RecordedOperation& operation : recording->operations()) {
    if (operation.kind != RecordedOperation::Kind::read) continue;
    now = operation.ended ? now - operation.bytes : now + operation.bytes;
    most = std::max(most, now);
  }
  CHECK(now == 0);
  CHECK(most >= 4_MiB);
  CHECK(most <= 24_MiB);  // of 40
}

TEST_CASE("Blocks are there after closing and opening") {
  Shelf shelf;
  shelf.put_chain(0, 99);
  shelf.reopen();
  CHECK(shelf.store().opened_empty_because().empty());
  CHECK(shelf->stats().blocks == 100);
  for (int n = 0; n < 100; ++n) CHECK(shelf.intact(n));
  CHECK(shelf.entry(5)->parent == shelf.key(4).digest);
}

}  // namespace kvstrata::storage::testing
