#include <doctest/doctest.h>

#include "engine_test_kit.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

Removal evict_all(EngineKit& kit) {
  const auto removal = kit.await<Removal>(
      [&](auto done) { kit.engine().evict(kit.caller(), 1_GiB, std::move(done)); });
  REQUIRE(removal.ok());
  return *removal;
}

}  // namespace

TEST_CASE("A leased block is not evicted until its lease is released") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 4);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto lease = kit.lookup(kit.caller(2), ns, sequence.tokens);
  REQUIRE(lease.ok());
  CHECK(evict_all(kit).removed_blocks == 0);
  REQUIRE(kit.engine().release(kit.caller(2), lease->lease).ok());
  CHECK(evict_all(kit).removed_blocks == 4);
}

TEST_CASE("A lease of a connection that goes away ends with it") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 4);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  REQUIRE(kit.lookup(kit.caller(2), ns, sequence.tokens).ok());
  kit.engine().connection_closed({2});
  CHECK(evict_all(kit).removed_blocks == 4);
}

TEST_CASE("An expired lease reads no more, and its blocks stay for one period longer") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto lease = kit.lookup(kit.caller(), ns, sequence.tokens);
  REQUIRE(lease.ok());
  kit.clock().advance(Milliseconds(10001));
  kit.engine().tick();
  const auto loaded = kit.await<Loaded>(
      [&](auto done) { kit.engine().load(kit.caller(), lease->lease, 0, 2, {}, std::move(done)); });
  REQUIRE_FALSE(loaded.ok());
  CHECK(evict_all(kit).removed_blocks == 0);
  kit.clock().advance(Milliseconds(10001));
  kit.engine().tick();
  CHECK(evict_all(kit).removed_blocks == 2);
}

TEST_CASE("A load whose expected tokens differ is answered conflict for those blocks") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  evict_all(kit);
  const auto lease = kit.lookup(kit.caller(), ns, sequence.tokens);
  REQUIRE(lease.ok());
  auto other = sequence.tokens;
  other.back() ^= 1;
  const auto loaded = kit.await<Loaded>([&](auto done) {
    kit.engine().load(kit.caller(), lease->lease, 0, 2, other, std::move(done));
  });
  REQUIRE(loaded.ok());
  CHECK(loaded->blocks[0].status == 0);
  CHECK(loaded->blocks[1].status == static_cast<std::uint8_t>(ErrorKind::conflict));
}

TEST_CASE("A second connection that knows the secret may read under the lease") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  const auto lease = kit.lookup(kit.caller(1), ns, sequence.tokens);
  REQUIRE(lease.ok());
  auto wrong = lease->secret;
  wrong[0] ^= std::byte{1};
  CHECK_FALSE(kit.engine().attach(kit.caller(2), lease->lease, wrong).ok());
  CHECK_FALSE(kit.engine().attach(kit.caller(2, "other"), lease->lease, lease->secret).ok());
  REQUIRE(kit.engine().attach(kit.caller(2), lease->lease, lease->secret).ok());
  CHECK(kit.engine().release(kit.caller(1), lease->lease).ok());
  CHECK(kit.await<Loaded>([&](auto done) {
             kit.engine().load(kit.caller(2), lease->lease, 0, 2, {}, std::move(done));
           })
            .ok());
}

TEST_CASE(
    "Staging slots are taken back at commit, at abort, at their deadline and with their owner") {
  EngineKit kit;
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto reserved = [&](std::uint64_t connection) {
    auto slots = kit.engine().reserve(kit.caller(connection), ns, 0, 2, 0);
    REQUIRE(slots.ok());
    return std::vector<std::uint64_t>{slots->slots[0].slot, slots->slots[1].slot};
  };
  const auto bytes = [&] { return kit.engine().stats(kit.caller()).gauges.at("reserved_bytes"); };
  const auto first = reserved(1);
  CHECK(bytes() == 2 * 4096);
  CHECK(kit.engine().abort(kit.caller(2), first) == 0);
  CHECK(kit.engine().abort(kit.caller(1), first) == 2);
  CHECK(bytes() == 0);
  reserved(1);
  kit.engine().connection_closed({1});
  CHECK(bytes() == 0);
  reserved(3);
  kit.clock().advance(Milliseconds(30001));
  kit.engine().tick();
  CHECK(bytes() == 0);
  CHECK(kit.engine().stats(kit.caller()).arena.staging_bytes > 0);
}
