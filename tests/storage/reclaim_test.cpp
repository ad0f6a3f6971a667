// Reclaim frees the oldest segment and keeps what is wanted: touched blocks, held and pinned ones,
// parents of blocks that stay. Everything that continues a dropped block goes with it.
#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

// Blocks of 64 KiB that fill the store once, and some more; 15 lie in a segment of 1 MiB.
constexpr int fill = 900;

// Puts unrelated blocks until the segment that holds block `n` was reclaimed at least once.
void fill_up(Shelf& shelf, int first, int blocks = fill) {
  for (int n = first; n < first + blocks; n += 50) {
    std::vector<Awaited<Result<IndexEntry>>> puts;
    for (int i = n; i < std::min(n + 50, first + blocks); ++i) puts.push_back(shelf.start_put(i));
    REQUIRE(shelf->flush().ok());
    for (auto& put : puts) REQUIRE(put.get().ok());
  }
}

class DroppedKeys {
 public:
  explicit DroppedKeys(Store& store) {
    store.on_dropped([this](std::span<const BlockKey> keys) {
      const std::lock_guard lock(mutex_);
      keys_.insert(keys.begin(), keys.end());
    });
  }
  bool contains(const BlockKey& key) {
    const std::lock_guard lock(mutex_);
    return keys_.contains(key);
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return keys_.size();
  }

 private:
  std::mutex mutex_;
  std::set<BlockKey> keys_;
};

}  // namespace

TEST_CASE("The oldest blocks go first, and the callback names them") {
  Shelf shelf;
  DroppedKeys dropped(shelf.store());
  fill_up(shelf, 0);
  CHECK_FALSE(shelf.has(0));
  CHECK(shelf.intact(fill - 1));
  const StoreStats stats = shelf->stats();
  CHECK(stats.reclaimed_segments > 0);
  CHECK(stats.dropped_blocks + stats.blocks == fill);
  CHECK(shelf.count(0, fill - 1) == static_cast<int>(stats.blocks));
  shelf.store().flush().value();
  const auto gone = static_cast<std::size_t>(fill) - stats.blocks;
  shelf.close();
  CHECK(dropped.count() == gone);
}

TEST_CASE("What is left after many fills is what was put last, and all of it is intact") {
  Shelf shelf;
  fill_up(shelf, 0, 4000);
  const int left = shelf.count(0, 3999);
  CHECK(left == static_cast<int>(shelf->stats().blocks));
  CHECK(left > 400);
  for (int n = 4000 - left; n < 4000; ++n) CHECK(shelf.has(n));
  for (int n = 3999; n > 3999 - left; n -= 37) CHECK(shelf.intact(n));
}

TEST_CASE("A touched block and its ancestors are kept, untouched neighbours go") {
  Shelf shelf;
  shelf.put_chain(0, 4);    // touched at its end
  shelf.put_chain(10, 14);  // never touched
  fill_up(shelf, 1000, 600);
  const BlockKey tip = shelf.key(4);
  shelf->touch({&tip, 1});
  fill_up(shelf, 2000, 500);
  for (int n = 0; n <= 4; ++n) CHECK(shelf.intact(n));
  CHECK(shelf.count(10, 14) == 0);
  CHECK(shelf->stats().reinserted_bytes > 0);
}

TEST_CASE("A touch is spent by being kept once") {
  Shelf shelf;
  shelf.put(0);
  const BlockKey key = shelf.key(0);
  shelf->touch({&key, 1});
  fill_up(shelf, 1000);
  CHECK(shelf.has(0));
  fill_up(shelf, 3000, 2 * fill);
  CHECK_FALSE(shelf.has(0));
}

TEST_CASE("Held blocks stay as long as they are held, however often") {
  Shelf shelf;
  shelf.put_chain(0, 4);
  const BlockKey tip = shelf.key(4);
  shelf->hold({&tip, 1});
  shelf->hold({&tip, 1});
  shelf->unhold({&tip, 1});
  fill_up(shelf, 1000, 3 * fill);
  for (int n = 0; n <= 4; ++n) CHECK(shelf.intact(n));
  shelf->unhold({&tip, 1});
  fill_up(shelf, 10'000, 2 * fill);
  CHECK(shelf.count(0, 4) == 0);
}

TEST_CASE("Pinned blocks and their ancestors are never reclaimed, also after a restart") {
  Shelf shelf;
  shelf.put_chain(0, 4);
  const BlockKey tip = shelf.key(4);
  REQUIRE(shelf->set_pinned({&tip, 1}, true).ok());
  fill_up(shelf, 1000, 2 * fill);
  shelf.reopen();
  fill_up(shelf, 5000, 2 * fill);
  for (int n = 0; n <= 4; ++n) CHECK(shelf.intact(n));
  REQUIRE(shelf->set_pinned({&tip, 1}, false).ok());
  fill_up(shelf, 10'000, 2 * fill);
  CHECK(shelf.count(0, 4) == 0);
}

TEST_CASE("A parent of a block that lives elsewhere is kept, so no block is without its prefix") {
  Shelf shelf;
  shelf.put(0);
  fill_up(shelf, 1000, 600);
  shelf.put(1, {.parent = 0});
  fill_up(shelf, 3000, 300);
  CHECK(shelf.has(1));
  CHECK(shelf.intact(0));
}

TEST_CASE("Descendants in other segments go with their ancestor, in the same batch") {
  Shelf shelf;
  // 20 chains whose first blocks fill more than half a segment; all cannot stay.
  for (int chain = 0; chain < 14; ++chain) shelf.put(chain * 10);
  fill_up(shelf, 1000, 400);
  for (int chain = 0; chain < 14; ++chain) {
    shelf.put(chain * 10 + 1, {.parent = chain * 10});
    shelf.put(chain * 10 + 2, {.parent = chain * 10 + 1});
  }
  fill_up(shelf, 3000, 420);
  int complete = 0;
  for (int chain = 0; chain < 14; ++chain) {
    const int found = shelf.count(chain * 10, chain * 10 + 2);
    CHECK((found == 0 || found == 3));
    complete += found == 3 ? 1 : 0;
  }
  CHECK(complete > 0);
  CHECK(complete < 14);
}

TEST_CASE("Pinning everything ends in out_of_space, not in a loop, and unpinning helps") {
  FakeClock clock;
  StoreOptions options = Shelf::small_options();
  options.clock = &clock;
  Shelf shelf(options);
  int put = 0;
  Result<IndexEntry> entry = shelf.try_put(put, {.pinned = true});
  while (entry.ok() && put < 2000) entry = shelf.try_put(++put, {.pinned = true});
  REQUIRE_FALSE(entry.ok());
  CHECK(entry.error().kind() == ErrorKind::out_of_space);
  for (int n = 0; n < put; n += 17) CHECK(shelf.intact(n));
  std::vector<BlockKey> keys;
  for (int n = 0; n < put; ++n) keys.push_back(shelf.key(n));
  REQUIRE(shelf->set_pinned(keys, false).ok());
  clock.advance(Milliseconds(60'000));
  shelf.put(5000);
  CHECK(shelf.intact(5000));
}

TEST_CASE("A dead segment is freed before any live block is dropped") {
  Shelf shelf;
  fill_up(shelf, 0, 600);
  std::vector<BlockKey> keys;
  for (int n = 300; n < 600; ++n) keys.push_back(shelf.key(n));
  REQUIRE(shelf->erase(keys, false, false).ok());
  fill_up(shelf, 1000, 250);
  CHECK(shelf.count(0, 299) == 300);
  CHECK(shelf->stats().dropped_blocks == 0);
}

TEST_CASE("A chain of extents over several segments moves and goes as a whole") {
  Shelf shelf;
  shelf.put(1, {.bytes = 3_MiB});
  const BlockKey key = shelf.key(1);
  shelf->hold({&key, 1});
  fill_up(shelf, 1000, 2 * fill);
  CHECK(shelf.intact(1, 3_MiB));
  shelf->unhold({&key, 1});
  fill_up(shelf, 5000, 2 * fill);
  CHECK_FALSE(shelf.has(1));
  CHECK(shelf.count(1000, 7000) == static_cast<int>(shelf->stats().blocks));
}

TEST_CASE("A read in flight sees its block whole, whatever reclaim does meanwhile") {
  Shelf shelf;
  fill_up(shelf, 0, 600);
  std::vector<std::pair<int, Awaited<Result<ReadRecord>>>> reads;
  for (int round = 0; round < 20; ++round) {
    for (int n = 0; n < 600; n += 7) {
      const std::optional<IndexEntry> entry = shelf.entry(n);
      if (!entry) continue;
      reads.emplace_back(n, Awaited<Result<ReadRecord>>());
      shelf->read(shelf.key(n), *entry, reads.back().second.setter());
    }
    fill_up(shelf, 10'000 + round * 50, 50);
  }
  int intact = 0;
  for (auto& [n, awaited] : reads) {
    const Result<ReadRecord> record = awaited.get();
    if (!record) {
      CHECK(record.error().kind() == ErrorKind::not_found);
      continue;
    }
    CHECK(std::ranges::equal(record->frame, content_of(n, 64_KiB)));
    ++intact;
  }
  CHECK(intact > 0);
}

TEST_CASE("An entry from before a move is followed to where the block lies now") {
  Shelf shelf;
  shelf.put(1);
  const IndexEntry before = *shelf.entry(1);
  const BlockKey key = shelf.key(1);
  shelf->hold({&key, 1});
  fill_up(shelf, 1000, 2 * fill);
  REQUIRE(shelf.entry(1)->where != before.where);
  Awaited<Result<ReadRecord>> awaited;
  shelf->read(key, before, awaited.setter());
  const Result<ReadRecord> record = awaited.get();
  REQUIRE(record.ok());
  CHECK(std::ranges::equal(record->frame, content_of(1, 64_KiB)));
}

TEST_CASE("While a segment is emptied the statistics say so") {
  StoreOptions options = Shelf::small_options();
  Store* store = nullptr;
  int times = 0;
  int said = 0;
  options.at_point = [&](std::string_view point) {
    if (point != "after-reclaim-index") return;
    ++times;
    said += store->stats().reclaiming ? 1 : 0;
  };
  Shelf shelf(options);
  store = &shelf.store();
  fill_up(shelf, 1000, 2 * fill);
  REQUIRE(shelf->flush().ok());
  CHECK(times > 0);
  CHECK(said == times);
  CHECK_FALSE(shelf->stats().reclaiming);
}

}  // namespace kvstrata::storage::testing
