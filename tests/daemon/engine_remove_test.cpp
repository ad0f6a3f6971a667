#include <doctest/doctest.h>

#include "engine_test_kit.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

std::size_t found(EngineKit& kit, NamespaceId ns, const Sequence16& sequence) {
  const auto lease = kit.lookup(kit.caller(), ns, sequence.tokens);
  REQUIRE(lease.ok());
  if (lease->lease.value != 0) REQUIRE(kit.engine().release(kit.caller(), lease->lease).ok());
  return lease->tiers.size();
}

std::vector<std::uint32_t> head(const Sequence16& sequence, std::size_t blocks) {
  return {sequence.tokens.begin(),
          sequence.tokens.begin() + static_cast<std::ptrdiff_t>(blocks * 16)};
}

}  // namespace

TEST_CASE("A removed block is missed at once and after a restart, and what continued it too") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 6);
  auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  ClearRequest request;
  request.scope = ClearScope::prefix;
  request.prefix = by_tokens(ns, head(sequence, 3));
  const auto removal = kit.await<Removal>(
      [&](auto done) { kit.engine().clear(kit.caller(), request, std::move(done)); });
  REQUIRE(removal.ok());
  CHECK(removal->removed_blocks == 4);
  CHECK(found(kit, ns, sequence) == 2);
  kit.restart();
  ns = kit.open_namespace(small_model(), kit.caller()).ns;
  CHECK(found(kit, ns, sequence) == 2);
}

TEST_CASE("A block removed while it is being written does not come back") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 16);
  auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  // Again and again: the removal comes before, while and after the store has the record.
  for (int round = 0; round < 20; ++round) {
    REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
    REQUIRE(kit.remove(kit.caller(), ns, sequence.tokens).ok());
    CHECK(found(kit, ns, sequence) == 0);
    REQUIRE(kit.flush(kit.caller()).ok());
    CHECK(found(kit, ns, sequence) == 0);
  }
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  CHECK(found(kit, ns, sequence) == 16);
  kit.restart();
  ns = kit.open_namespace(small_model(), kit.caller()).ns;
  CHECK(found(kit, ns, sequence) == 16);
}

TEST_CASE("A leased block that is removed is missed by others and stays readable under the lease") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto loaded = kit.get(kit.caller(2), ns, sequence.tokens);
  REQUIRE(loaded.ok());
  const auto removal = kit.remove(kit.caller(), ns, sequence.tokens);
  REQUIRE(removal.ok());
  CHECK(removal->kept_leased == 1);
  CHECK(found(kit, ns, sequence) == 0);
  CHECK(bytes_of_block(loaded->blocks[0]) == sequence.blocks[0]);
  REQUIRE(kit.engine().release(kit.caller(2), loaded->grant.lease).ok());
  CHECK(kit.engine().stats(kit.caller()).arena.slots_used == 0);
}

TEST_CASE("A pinned block survives clear, and goes when pinned ones are named too") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto pinned = kit.await<Changed>([&](auto done) {
    kit.engine().pin(kit.caller(), by_tokens(ns, head(sequence, 1)), true, std::move(done));
  });
  REQUIRE(pinned.ok());
  CHECK(pinned->changed == 1);
  ClearRequest request;
  const auto clear = [&] {
    return kit.await<Removal>(
        [&](auto done) { kit.engine().clear(kit.caller(), request, std::move(done)); });
  };
  const auto first = clear();
  REQUIRE(first.ok());
  CHECK(first->removed_blocks == 1);
  CHECK(first->kept_pinned == 1);
  CHECK(found(kit, ns, sequence) == 1);
  request.also_pinned = true;
  REQUIRE(clear().ok());
  CHECK(found(kit, ns, sequence) == 0);
}

TEST_CASE("An expired block is a miss and may be put again") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  REQUIRE(kit.await<Changed>([&](auto done) {
               kit.engine().set_ttl(kit.caller(), by_tokens(ns, sequence.tokens), 500,
                                    std::move(done));
             })
              .ok());
  CHECK(found(kit, ns, sequence) == 1);
  kit.clock().advance(Milliseconds(501));
  CHECK(found(kit, ns, sequence) == 0);
  const auto again = kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true);
  REQUIRE(again.ok());
  CHECK(again->status.front() == 0);
  CHECK(found(kit, ns, sequence) == 1);
}

TEST_CASE("After a weight bump the old namespace is refused and its blocks are gone") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto epoch = kit.await<std::uint64_t>(
      [&](auto done) { kit.engine().bump_weight_epoch(kit.caller(), "m", std::move(done)); });
  REQUIRE(epoch.ok());
  const auto refused = kit.lookup(kit.caller(), ns, sequence.tokens);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind() == ErrorKind::epoch_changed);
  const auto again = kit.open_namespace(small_model(), kit.caller());
  CHECK(again.weight_epoch == *epoch);
  CHECK(again.ns != ns);
  CHECK(found(kit, again.ns, sequence) == 0);
}

TEST_CASE("A tenant neither sees nor touches another tenant's namespace") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto stranger = kit.caller(9, "other");
  CHECK_FALSE(kit.lookup(stranger, ns, sequence.tokens).ok());
  CHECK_FALSE(kit.remove(stranger, ns, sequence.tokens).ok());
  CHECK_FALSE(kit.put(stranger, ns, sequence.tokens, sequence.blocks).ok());
  const auto own = kit.open_namespace(small_model(), stranger).ns;
  CHECK(own != ns);
  const auto lease = kit.lookup(stranger, own, sequence.tokens);
  REQUIRE(lease.ok());
  CHECK(lease->tiers.empty());
  REQUIRE(kit.await<Removal>([&](auto done) { kit.engine().clear(stranger, {}, std::move(done)); })
              .ok());
  CHECK(found(kit, ns, sequence) == 2);
}

TEST_CASE("Memory that one tenant filled and cleared serves another") {
  EngineKit kit(16_MiB);
  const auto stranger = kit.caller(9, "other");
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto sequence = make_sequence(i, 100);
    REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  }
  REQUIRE(
      kit.await<Removal>([&](auto done) { kit.engine().clear(kit.caller(), {}, std::move(done)); })
          .ok());
  const auto own = kit.open_namespace(small_model(), stranger).ns;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto sequence = make_sequence(i, 100);
    const auto stored = kit.put(stranger, own, sequence.tokens, sequence.blocks, true);
    REQUIRE(stored.ok());
    CHECK(stored->status == std::vector<std::uint8_t>(100, 0));
  }
  const auto stats = kit.engine().stats(stranger).arena;
  CHECK(stats.chunk_bytes + stats.zombie_bytes <= stats.budget_bytes);
}

TEST_CASE("EXPLAIN names the first field in which a namespace that has the block differs") {
  EngineKit kit;
  const auto sequence = make_sequence(1, 2);
  auto salted = small_model();
  salted.salt = "s";
  const auto with_salt = kit.open_namespace(salted, kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), with_salt, sequence.tokens, sequence.blocks).ok());
  const auto plain = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto explained = kit.await<Explanation>([&](auto done) {
    kit.engine().explain(kit.caller(), by_tokens(plain, sequence.tokens), std::move(done));
  });
  REQUIRE(explained.ok());
  CHECK(explained->blocks == 0);
  CHECK(explained->wanted == 2);
  CHECK(explained->field == "salt");
}
