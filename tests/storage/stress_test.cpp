// Many threads at once: whatever they do, a block reads back as it was put or not at all, the
// counts agree with the index, and the budget holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/base/seed.h"
#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

namespace {

constexpr int keys = 600;
constexpr int rounds = 400;

std::uint64_t bytes_of(int n) {
  constexpr std::uint64_t sizes[] = {100, 5000, 40'000, 64_KiB, 200'000, 600'000};
  return sizes[n % 6];
}

class Stressor {
 public:
  Stressor(Shelf& shelf, std::uint64_t seed) : shelf_(shelf), random_(seed) {}

  void run() {
    for (int i = 0; i < rounds; ++i) step();
  }
  int wrong() const { return wrong_; }
  int reads() const { return reads_; }

 private:
  int any(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  void step() {
    const int n = any(keys);
    const BlockKey key = shelf_.key(n);
    switch (any(10)) {
      case 0: (void)shelf_->erase({&key, 1}, any(2) == 0, true); break;
      case 1: shelf_->touch({&key, 1}); break;
      case 2:
        shelf_->hold({&key, 1});
        read(n);
        shelf_->unhold({&key, 1});
        break;
      case 3: (void)shelf_->set_pinned({&key, 1}, any(8) == 0); break;
      case 4:
      case 5:
      case 6: read(n); break;
      default: {
        Put how{.bytes = bytes_of(n)};
        if (n % 20 != 0) how.parent = n - 1;
        (void)shelf_.start_put(n, how).get();
      }
    }
  }

  void read(int n) {
    const BlockKey key = shelf_.key(n);
    std::optional<IndexEntry> entry;
    if (!shelf_->find({&key, 1}, {&entry, 1}) || !entry) return;
    Awaited<Result<ReadRecord>> awaited;
    shelf_->read(key, *entry, awaited.setter());
    const Result<ReadRecord> record = awaited.get();
    if (!record) {
      wrong_ += record.error().kind() == ErrorKind::not_found ? 0 : 1;
      return;
    }
    ++reads_;
    const bool same = std::ranges::equal(record->frame, content_of(n, bytes_of(n))) &&
                      std::ranges::equal(record->identity, identity_of(n));
    wrong_ += same ? 0 : 1;
  }

  Shelf& shelf_;
  std::mt19937_64 random_;
  int wrong_ = 0;
  int reads_ = 0;
};

}  // namespace

TEST_CASE("Threads that put, read, erase, hold and pin at once never see a wrong byte") {
  const std::uint64_t seed = test::test_seed("storage stress");
  StoreOptions options = Shelf::small_options();
  options.group_commit_delay = Milliseconds(1);
  Shelf shelf(options);
  std::vector<Stressor> stressors;
  for (std::uint64_t i = 0; i < 6; ++i) stressors.emplace_back(shelf, seed + i);
  std::vector<std::thread> threads;
  for (Stressor& stressor : stressors) threads.emplace_back([&stressor] { stressor.run(); });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(shelf->flush().ok());
  for (const Stressor& stressor : stressors) CHECK(stressor.wrong() == 0);

  const auto check_counts = [&] {
    const StoreStats stats = shelf->stats();
    const auto all = *shelf->list(shelf.ns(), std::nullopt, 10'000);
    std::uint64_t live = 4096;  // the namespace's record
    for (const auto& [key, entry] : all) live += entry.record_bytes();
    CHECK(stats.blocks == all.size());
    CHECK(stats.live_bytes == live);
    CHECK(stats.corrupt_records == 0);
    CHECK(shelf.disk_usage() <= 64_MiB);
  };
  check_counts();
  shelf.reopen();
  check_counts();
  for (int n = 0; n < keys; ++n) {
    if (shelf.has(n)) CHECK(shelf.intact(n, bytes_of(n)));
  }
}

}  // namespace kvstrata::storage::testing
