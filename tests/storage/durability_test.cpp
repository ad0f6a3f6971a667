// Data first, then index: what was acknowledged survives a kill, and nothing is in the index whose
// bytes were not synced before.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>

#include "storage/device/faulty_device.h"
#include "storage/device/recording_device.h"
#include "storage/segment/segment_file.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> faulty_by(
    std::shared_ptr<FaultScript> script) {
  return [script](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    return std::make_unique<FaultyDevice>(std::move(device), script);
  };
}

// Ends the process at the `nth` passing of a point.
std::function<void(std::string_view)> die_at(std::string_view point, int nth) {
  return [point = std::string(point), left = std::make_shared<int>(nth)](std::string_view at) {
    if (at == point && --*left == 0) {
      die_here();
    }
  };
}

// The points of a group commit, as opposed to those of the writer's loop and of reclaim.
bool of_commit(std::string_view point) {
  return point.ends_with("-data-sync") || point.ends_with("-index-write");
}

/// What a log of operations says was written whole, and synced after that.
class SyncedRanges {
 public:
  explicit SyncedRanges(const std::vector<RecordedOperation>& log) {
    std::map<std::string, Ranges> written, syncing;
    for (const RecordedOperation& operation : log) {
      const std::string& file = operation.name;
      if (operation.kind == RecordedOperation::Kind::write && operation.ended) {
        written[file][operation.offset] = operation.offset + operation.bytes;
      }
      if (operation.kind != RecordedOperation::Kind::data_sync) continue;
      if (operation.ended && operation.ok) {
        synced_[file].merge(syncing[file]);
      } else if (!operation.ended) {
        syncing[file] = written[file];
      }
    }
  }

  bool cover(const RecordLocation& where) const {
    const auto ranges = synced_.find(segment_file_name(where.segment));
    if (ranges == synced_.end()) return false;
    std::uint64_t at = where.offset;
    for (auto range = ranges->second.find(at);
         range != ranges->second.end() && at < where.offset + where.bytes;
         range = ranges->second.find(at)) {
      at = range->second;
    }
    return at >= where.offset + where.bytes;
  }

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // end by start
  std::map<std::string, Ranges> synced_;
};

const ChildRole puts_and_dies("puts and dies", [](const std::vector<std::string>& arguments) {
  Shelf shelf(arguments[0], Shelf::small_options());
  shelf.put_chain(0, 63);
  shelf.start_put(64);  // not acknowledged: may or may not survive
  die_here();
});

const ChildRole dies_at_a_point("dies at a point", [](const std::vector<std::string>& arguments) {
  StoreOptions options = Shelf::small_options();
  // Registering the namespace passes each point once, the first block too.
  options.at_point = die_at(arguments[1], 3);
  Shelf shelf(arguments[0], options);
  shelf.put(1);
  shelf.put(2);
});

}  // namespace

TEST_CASE("All acknowledged appends survive kill -9") {
  const TempDirectory place(Medium::fast);
  const std::string directory = place.path() + "/store";
  const int status = ChildProcess("puts and dies", {directory}).wait();
  REQUIRE(WIFSIGNALED(status));
  Shelf shelf(directory, Shelf::small_options());
  CHECK(shelf->opened_empty_because().empty());
  for (int n = 0; n < 64; ++n) CHECK(shelf.intact(n));
  CHECK((!shelf.has(64) || shelf.intact(64)));
  shelf.put_chain(100, 163);
  for (int n = 0; n < 64; ++n) CHECK(shelf.intact(n));
}

TEST_CASE("A kill at any point of a commit loses at most what was not acknowledged") {
  for (const std::string_view point :
       {"before-data-sync", "after-data-sync", "before-index-write", "after-index-write"}) {
    CAPTURE(point);
    const TempDirectory place(Medium::fast);
    const std::string directory = place.path() + "/store";
    const int status = ChildProcess("dies at a point", {directory, std::string(point)}).wait();
    REQUIRE(WIFSIGNALED(status));
    Shelf shelf(directory, Shelf::small_options());
    CHECK(shelf.intact(1));
    CHECK(shelf.has(2) == (point == "after-index-write"));
    CHECK((!shelf.has(2) || shelf.intact(2)));
    shelf.put(3);
    CHECK(shelf.intact(3));
    CHECK(shelf.intact(1));
  }
}

TEST_CASE("Every byte is synced before the index names it") {
  const auto recording = std::make_shared<Recording>();
  std::vector<std::string> points;
  std::optional<std::array<BlockKey, 50>> keys;
  Store* store = nullptr;
  std::size_t named = 0, unsynced = 0;
  StoreOptions options = Shelf::small_options();
  options.wrap_device = [recording](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    return std::make_unique<RecordingDevice>(std::move(device), recording);
  };
  options.at_point = [&](std::string_view point) {
    if (!of_commit(point)) return;
    points.emplace_back(point);
    if (!keys || point != "after-index-write") return;
    const SyncedRanges synced(recording->operations());
    std::array<std::optional<IndexEntry>, 50> entries;
    REQUIRE(store->find(*keys, entries).ok());
    for (const auto& entry : entries) {
      if (!entry) continue;
      ++named;
      unsynced += synced.cover(entry->where) ? 0 : 1;
    }
  };
  Shelf shelf(options, Medium::disk);
  store = &shelf.store();
  REQUIRE(shelf.store().flush().ok());
  keys.emplace();
  for (int n = 0; n < 50; ++n) (*keys)[static_cast<std::size_t>(n)] = shelf.key(n);
  shelf.put_chain(0, 49);
  shelf.close();
  CHECK(named >= 50);
  CHECK(unsynced == 0);
  const std::vector<std::string> commit = {"before-data-sync", "after-data-sync",
                                           "before-index-write", "after-index-write"};
  REQUIRE(points.size() % commit.size() == 0);
  for (std::size_t i = 0; i < points.size(); ++i) CHECK(points[i] == commit[i % commit.size()]);
}

TEST_CASE("A block is not found before its index write and always found after its completion") {
  StoreOptions options = Shelf::small_options();
  Store* store = nullptr;
  std::optional<BlockKey> key;
  std::vector<std::pair<std::string, bool>> seen;
  options.at_point = [&](std::string_view point) {
    if (!of_commit(point) || !key) return;  // other points come before the key is set
    std::optional<IndexEntry> entry;
    REQUIRE(store->find({&*key, 1}, {&entry, 1}).ok());
    seen.emplace_back(point, entry.has_value());
  };
  Shelf shelf(options, Medium::disk);
  store = &shelf.store();
  key = shelf.key(7);
  shelf.put(7);
  CHECK(shelf.has(7));
  shelf.close();
  REQUIRE(seen.size() == 4);
  for (const auto& [point, found] : seen) CHECK(found == (point == "after-index-write"));
}

TEST_CASE("A failed sync condemns its segment: the group fails and earlier blocks there go") {
  const auto script = std::make_shared<FaultScript>();
  StoreOptions options = Shelf::small_options();
  options.wrap_device = faulty_by(script);
  Shelf shelf(options);
  shelf.put(1);
  const SegmentId condemned = shelf.entry(1)->where.segment;
  script->add({.target = FaultTarget::data_sync});
  const Result<IndexEntry> failed = shelf.try_put(2);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().kind() == ErrorKind::io);
  CHECK_FALSE(shelf.has(1));
  CHECK_FALSE(shelf.has(2));
  CHECK(shelf->stats().condemned_segments == 1);
  CHECK_FALSE(shelf->stats().degraded.empty());
  shelf.close();
  script->clear();
  shelf.reopen();
  shelf.put(3);
  CHECK(shelf.entry(3)->where.segment != condemned);
  CHECK(shelf.intact(3));
}

TEST_CASE("A block that is written anew in the group that condemns its segment is not dropped") {
  const auto script = std::make_shared<FaultScript>();
  StoreOptions options = Shelf::small_options();
  options.wrap_device = faulty_by(script);
  // One group: the writer waits until all is queued, and then for the flush.
  options.group_commit_delay = Milliseconds(60'000);
  std::atomic<bool> writer_waits{false};
  options.at_point = [&](std::string_view point) {
    if (point == "writer-turn") writer_waits.wait(true);
  };
  Shelf shelf(options);
  std::vector<BlockKey> dropped;
  shelf->on_dropped([&](std::span<const BlockKey> keys) {
    dropped.insert(dropped.end(), keys.begin(), keys.end());
  });
  shelf.put(1);
  shelf.put(2);
  const SegmentId condemned = shelf.entry(1)->where.segment;
  script->add({.target = FaultTarget::data_sync});
  std::vector<Awaited<Result<IndexEntry>>> fillers;
  writer_waits = true;
  for (int n = 100; n < 120; ++n) fillers.push_back(shelf.start_put(n));
  auto anew = shelf.start_put(1, {.pinned = true});
  writer_waits = false;
  writer_waits.notify_all();
  REQUIRE(shelf->flush().ok());
  REQUIRE(anew.get().ok());
  CHECK(shelf.entry(1)->where.segment != condemned);
  CHECK_FALSE(shelf.has(2));
  const BlockKey kept = shelf.key(1);
  const BlockKey gone = shelf.key(2);
  shelf.close();  // after which everything was told
  CHECK(std::ranges::find(dropped, kept) == dropped.end());
  CHECK(std::ranges::find(dropped, gone) != dropped.end());
}

TEST_CASE("A failed sync is never tried again on the same data") {
  const auto script = std::make_shared<FaultScript>();
  StoreOptions options = Shelf::small_options();
  FakeClock clock;
  options.clock = &clock;
  options.wrap_device = faulty_by(script);
  Shelf shelf(options);
  shelf.put(1);
  const std::uint64_t before = script->operations(FaultTarget::data_sync);
  script->add({.target = FaultTarget::data_sync});
  CHECK_FALSE(shelf.try_put(2).ok());
  CHECK(script->operations(FaultTarget::data_sync) == before + 1);
  clock.advance(Milliseconds(60'000));
  shelf.put(2);
  CHECK(shelf.intact(2));
  CHECK(shelf->stats().degraded.empty());
}

TEST_CASE("A failed write fails its own append only") {
  const auto script = std::make_shared<FaultScript>();
  StoreOptions options = Shelf::small_options();
  options.wrap_device = faulty_by(script);
  options.group_commit_delay = Milliseconds(60'000);  // one group
  Shelf shelf(options);
  script->add({.target = FaultTarget::write, .nth = 5});
  std::vector<Awaited<Result<IndexEntry>>> puts;
  for (int n = 0; n < 8; ++n) puts.push_back(shelf.start_put(n));
  REQUIRE(shelf->flush().ok());
  int failed = 0;
  for (int n = 0; n < 8; ++n) {
    const Result<IndexEntry> entry = puts[static_cast<std::size_t>(n)].get();
    CHECK(shelf.has(n) == entry.ok());
    CHECK((!entry.ok() || shelf.intact(n)));
    failed += entry.ok() ? 0 : 1;
  }
  CHECK(failed == 1);
  CHECK(shelf->stats().write_errors >= 1);
}

TEST_CASE("A full file system refuses appends, keeps reads, and is tried again in time") {
  const auto script = std::make_shared<FaultScript>();
  FakeClock clock;
  StoreOptions options = Shelf::small_options();
  options.clock = &clock;
  options.wrap_device = faulty_by(script);
  Shelf shelf(options);
  shelf.put_chain(0, 9);
  script->add({.target = FaultTarget::write, .from_then_on = true, .error_number = ENOSPC});
  const Result<IndexEntry> failed = shelf.try_put(10);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().kind() == ErrorKind::out_of_space);
  CHECK_FALSE(shelf->stats().writable);
  CHECK_FALSE(shelf->stats().degraded.empty());
  CHECK(shelf.try_put(11).error().kind() == ErrorKind::out_of_space);
  for (int n = 0; n < 10; ++n) CHECK(shelf.intact(n));
  script->clear();
  clock.advance(Milliseconds(60'000));
  shelf.put(12);
  CHECK(shelf.intact(12));
  CHECK(shelf->stats().writable);
  CHECK(shelf->stats().degraded.empty());
}

TEST_CASE("More appends than the bound are busy, and none is lost") {
  StoreOptions options = Shelf::small_options();
  options.append_queue_max = 4;
  options.group_commit_delay = Milliseconds(60'000);
  Shelf shelf(options);
  std::vector<Awaited<Result<IndexEntry>>> puts;
  for (int n = 0; n < 5; ++n) puts.push_back(shelf.start_put(n));
  CHECK(puts[4].get().error().kind() == ErrorKind::busy);
  REQUIRE(shelf->flush().ok());
  for (std::size_t n = 0; n < 4; ++n) CHECK(puts[n].get().ok());
  CHECK(shelf->stats().appends_in_flight == 0);
}

TEST_CASE("Closing makes everything durable that was queued") {
  StoreOptions options = Shelf::small_options();
  options.group_commit_delay = Milliseconds(60'000);
  Shelf shelf(options);
  std::vector<Awaited<Result<IndexEntry>>> puts;
  for (int n = 0; n < 20; ++n) puts.push_back(shelf.start_put(n));
  shelf.close();
  for (auto& put : puts) CHECK(put.get().ok());
  shelf.reopen();
  for (int n = 0; n < 20; ++n) CHECK(shelf.intact(n));
}

}  // namespace kvstrata::storage::testing
