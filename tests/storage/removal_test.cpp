// Erasing, pins and expiry: what is removed is gone when the call returns, in memory and on disk,
// and nothing that was under way brings it back.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/storage/support.h"

namespace kvstrata::storage::testing {

TEST_CASE("An erased block is gone at once and after a restart") {
  Shelf shelf;
  shelf.put_chain(0, 4);
  const std::uint64_t bytes = shelf.entry(4)->record_bytes();
  const RemovalCounts counts = shelf.erase(4);
  CHECK(counts.removed_blocks == 1);
  CHECK(counts.removed_bytes == bytes);
  CHECK_FALSE(shelf.has(4));
  CHECK(shelf->stats().blocks == 4);
  shelf.reopen();
  CHECK(shelf.count(0, 4) == 4);
  CHECK(shelf->stats().live_bytes == 4 * bytes + 4096);  // and the namespace's record
}

TEST_CASE("Erasing with descendants takes a whole branch and nothing else") {
  Shelf shelf;
  shelf.put_chain(0, 4);
  shelf.put(10, {.parent = 1});
  shelf.put(11, {.parent = 10});
  const RemovalCounts counts = shelf.erase(2, true);
  CHECK(counts.removed_blocks == 3);
  CHECK(shelf.count(0, 1) == 2);
  CHECK(shelf.count(2, 4) == 0);
  CHECK(shelf.count(10, 11) == 2);
}

TEST_CASE("Erasing a missing block changes nothing and says so") {
  Shelf shelf;
  shelf.put(1);
  CHECK(shelf.erase(2).removed_blocks == 0);
  CHECK(shelf.has(1));
}

TEST_CASE("Descendants are found through a block that is missing") {
  Shelf shelf;
  shelf.put_chain(0, 4);
  shelf.erase(2);
  CHECK(shelf.erase(2, true).removed_blocks == 2);
  CHECK(shelf.count(0, 4) == 2);
}

TEST_CASE("Pinned blocks are kept and counted unless they are asked for") {
  Shelf shelf;
  shelf.put(1, {.pinned = true});
  shelf.put(2);
  const std::vector<BlockKey> both = {shelf.key(1), shelf.key(2)};
  const RemovalCounts kept = *shelf->erase(both, false, false);
  CHECK(kept.kept_pinned == 1);
  CHECK(kept.removed_blocks == 1);
  CHECK(shelf.has(1));
  CHECK(shelf->erase(both, false, true)->removed_blocks == 1);
  CHECK_FALSE(shelf.has(1));
}

TEST_CASE("An append under way doesn't bring an erased block back") {
  StoreOptions options = Shelf::small_options();
  options.group_commit_delay = Milliseconds(60'000);
  Shelf shelf(options);
  auto first = shelf.start_put(1);
  auto second = shelf.start_put(2, {.parent = 1});
  auto other = shelf.start_put(3);
  shelf.erase(1, true);
  REQUIRE(shelf->flush().ok());
  CHECK(first.get().error().kind() == ErrorKind::cancelled);
  CHECK(second.get().error().kind() == ErrorKind::cancelled);
  CHECK(other.get().ok());
  CHECK(shelf.count(1, 3) == 1);
  CHECK(shelf->stats().degraded.empty());
}

TEST_CASE("Erasing a namespace leaves the others alone") {
  Shelf shelf;
  shelf.put_chain(0, 9);
  shelf.put(50, {.pinned = true});
  const NamespaceId other = *shelf->register_namespace(a_namespace("other"));
  AppendRequest request;
  request.key = shelf.key(0);
  request.key.ns = other;
  const BlockKey foreign = request.key;
  REQUIRE(shelf->append(std::move(request), {}).ok());
  REQUIRE(shelf->flush().ok());
  const RemovalCounts counts = *shelf->erase_namespace(shelf.ns(), false);
  CHECK(counts.removed_blocks == 10);
  CHECK(counts.kept_pinned == 1);
  CHECK(shelf.count(0, 9) == 0);
  std::optional<IndexEntry> entry;
  REQUIRE(shelf->find({&foreign, 1}, {&entry, 1}).ok());
  CHECK(entry.has_value());
}

TEST_CASE("A namespace of many blocks is erased whole") {
  Shelf shelf;
  for (int n = 0; n < 5000; n += 500) {
    for (int i = n; i < n + 500; ++i) shelf.start_put(i, {.bytes = 100});
    REQUIRE(shelf->flush().ok());
  }
  CHECK(shelf->stats().blocks == 5000);
  CHECK(shelf->erase_namespace(shelf.ns(), false)->removed_blocks == 5000);
  CHECK(shelf->stats().blocks == 0);
}

TEST_CASE("An expired block misses, and leaves the index by itself") {
  FakeClock clock;
  StoreOptions options = Shelf::small_options();
  options.clock = &clock;
  Shelf shelf(options);
  Awaited<std::vector<BlockKey>> dropped;
  shelf->on_dropped([set = dropped.setter()](std::span<const BlockKey> keys) {
    set({keys.begin(), keys.end()});
  });
  shelf.put(1, {.expires_unix_ms = clock.unix_ms() + 1000});
  shelf.put(2);
  CHECK(shelf.has(1));
  clock.advance(Milliseconds(1000));
  CHECK_FALSE(shelf.has(1));
  const std::vector<BlockKey> keys = dropped.get();
  REQUIRE(keys.size() == 1);
  CHECK(keys[0] == shelf.key(1));
  CHECK(shelf->stats().blocks == 1);
  CHECK(shelf->stats().expired_blocks == 1);
}

TEST_CASE("Expiry can be set and taken back, and survives a restart") {
  FakeClock clock;
  StoreOptions options = Shelf::small_options();
  options.clock = &clock;
  Shelf shelf(options);
  shelf.put_chain(1, 2);
  const std::vector<BlockKey> keys = {shelf.key(1), shelf.key(2)};
  REQUIRE(shelf->set_expiry(keys, clock.unix_ms() + 1000).ok());
  REQUIRE(shelf->set_expiry({&keys[1], 1}, 0).ok());
  shelf.reopen();
  clock.advance(Milliseconds(5000));
  CHECK_FALSE(shelf.has(1));
  CHECK(shelf.has(2));
}

TEST_CASE("An expired block can be put again, with other bytes") {
  FakeClock clock;
  StoreOptions options = Shelf::small_options();
  options.clock = &clock;
  Shelf shelf(options);
  shelf.put(1, {.bytes = 1000, .expires_unix_ms = clock.unix_ms() + 1000});
  clock.advance(Milliseconds(1000));
  shelf.put(1, {.bytes = 2000});
  CHECK(shelf.intact(1, 2000));
  CHECK(shelf->stats().blocks == 1);
}

TEST_CASE("The first bytes under a key stay; the same bytes are taken without a write") {
  Shelf shelf;
  shelf.put(1, {.bytes = 1000});
  const std::uint64_t written = shelf->stats().appended_bytes;
  CHECK(shelf.try_put(1, {.bytes = 2000}).error().kind() == ErrorKind::conflict);
  CHECK(shelf.try_put(1, {.bytes = 1000}).ok());
  CHECK(shelf->stats().appended_bytes == written);
  CHECK(shelf.intact(1, 1000));
  CHECK(shelf->stats().degraded.empty());
}

TEST_CASE("The same content in another codec replaces the old record") {
  Shelf shelf;
  shelf.put(1);
  const RecordLocation before = shelf.entry(1)->where;
  shelf.put(1, {.codec = 2});
  CHECK(shelf.entry(1)->codec == 2);
  CHECK(shelf.entry(1)->where != before);
  CHECK(shelf.intact(1));
  CHECK(shelf->stats().blocks == 1);
}

TEST_CASE("Two appends of one key in a row end as one stored copy") {
  StoreOptions options = Shelf::small_options();
  options.group_commit_delay = Milliseconds(60'000);
  Shelf shelf(options);
  auto first = shelf.start_put(1);
  auto second = shelf.start_put(1);
  auto third = shelf.start_put(1, {.bytes = 100});
  REQUIRE(shelf->flush().ok());
  CHECK(first.get().ok());
  CHECK(second.get().ok());
  CHECK(third.get().error().kind() == ErrorKind::conflict);
  CHECK(shelf->stats().blocks == 1);
}

TEST_CASE("A namespace is listed in key order, page by page") {
  Shelf shelf;
  for (int n = 0; n < 25; ++n) shelf.start_put(n, {.bytes = 100});
  REQUIRE(shelf->flush().ok());
  std::vector<BlockKey> keys;
  std::optional<BlockKey> after;
  for (;;) {
    const auto page = *shelf->list(shelf.ns(), after, 10);
    for (const auto& [key, entry] : page) keys.push_back(key);
    if (page.size() < 10) break;
    after = keys.back();
  }
  CHECK(keys.size() == 25);
  CHECK(std::ranges::is_sorted(keys, {}, &BlockKey::digest));
  CHECK(std::ranges::adjacent_find(keys) == keys.end());
}

}  // namespace kvstrata::storage::testing
