// While one group is made durable the next one is written: what becomes of it when the first fails,
// and what reclaim does meanwhile.
#include <doctest/doctest.h>

#include <atomic>

#include "storage/device/faulty_device.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

/// A store in which block 1 is durable, and each put of 64 KiB is a group of its own.
class AheadShelf {
 public:
  AheadShelf() : shelf_(options()) { shelf_.put(1); }

  Shelf& shelf() { return shelf_; }
  FaultScript& script() { return *script_; }

  /// Puts block 2, and blocks 3 and 4 once the writer has taken that; what became of each.
  std::vector<Result<IndexEntry>> put_three() {
    armed_ = true;
    std::vector<Result<IndexEntry>> results{shelf_.try_put(2)};
    for (auto& put : ahead_) results.push_back(put.get());
    ahead_.clear();
    return results;
  }

 private:
  StoreOptions options() {
    StoreOptions options = Shelf::small_options();
    options.group_commit_bytes = 64_KiB;
    options.wrap_device = [script =
                               script_](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
      return std::make_unique<FaultyDevice>(std::move(device), script);
    };
    options.at_point = [this](std::string_view point) {
      if (point != "append-taken" || !armed_.exchange(false)) return;
      ahead_.push_back(shelf_.start_put(3));
      ahead_.push_back(shelf_.start_put(4));
    };
    return options;
  }

  std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  std::atomic<bool> armed_{false};
  std::vector<Awaited<Result<IndexEntry>>> ahead_;  // the writer thread's, until block 2 is done
  Shelf shelf_;
};

}  // namespace

TEST_CASE("What is written ahead becomes durable with its own group") {
  AheadShelf ahead;
  const std::uint64_t groups = ahead.shelf()->stats().group_commits;
  for (const Result<IndexEntry>& put : ahead.put_three()) CHECK(put.ok());
  CHECK(ahead.shelf()->stats().group_commits == groups + 2);
  ahead.shelf().close();
  ahead.shelf().reopen();
  for (const int n : {1, 2, 3, 4}) CHECK(ahead.shelf().intact(n));
}

TEST_CASE("What was written ahead into a segment that a failed sync condemned fails too") {
  AheadShelf ahead;
  const SegmentId condemned = ahead.shelf().entry(1)->where.segment;
  const std::uint64_t syncs = ahead.script().operations(FaultTarget::data_sync);
  ahead.script().add({.target = FaultTarget::data_sync});
  for (const Result<IndexEntry>& put : ahead.put_three()) {
    REQUIRE_FALSE(put.ok());
    CHECK(put.error().kind() == ErrorKind::io);
  }
  CHECK(ahead.script().operations(FaultTarget::data_sync) == syncs + 1);  // not tried again
  for (const int n : {1, 2, 3, 4}) CHECK_FALSE(ahead.shelf().has(n));
  CHECK(ahead.shelf()->stats().condemned_segments == 1);
  ahead.script().clear();
  ahead.shelf().close();
  ahead.shelf().reopen();
  ahead.shelf().put(5);
  CHECK(ahead.shelf().entry(5)->where.segment != condemned);
  CHECK(ahead.shelf().intact(5));
}

TEST_CASE("A write that fails ahead fails its own append only") {
  AheadShelf ahead;
  ahead.script().add({.target = FaultTarget::write, .nth = 2});  // block 3
  const std::vector<Result<IndexEntry>> puts = ahead.put_three();
  CHECK(puts[0].ok());
  CHECK_FALSE(puts[1].ok());
  CHECK(puts[2].ok());
  for (const int n : {1, 2, 4}) CHECK(ahead.shelf().intact(n));
  CHECK_FALSE(ahead.shelf().has(3));
}

TEST_CASE("Under steady load a store is filled many times, and what is left is intact") {
  StoreOptions options = Shelf::small_options();
  options.group_commit_bytes = 256_KiB;
  Shelf shelf(options);
  constexpr int blocks = 4'000;
  std::vector<Awaited<Result<IndexEntry>>> puts;
  for (int n = 0; n < blocks; ++n) {
    puts.push_back(shelf.start_put(n));
    if (n >= 200) CHECK(puts[static_cast<std::size_t>(n - 200)].get().ok());
  }
  REQUIRE(shelf->flush().ok());
  CHECK(shelf->stats().reclaimed_segments > 100);
  int left = 0;
  for (int n = 0; n < blocks; ++n) {
    if (!shelf.has(n)) continue;
    ++left;
    CHECK(shelf.intact(n));
  }
  CHECK(left > 400);
  CHECK(shelf.disk_usage() <= 64_MiB);
}

}  // namespace kvstrata::storage::testing
