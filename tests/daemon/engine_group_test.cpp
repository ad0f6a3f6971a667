#include <doctest/doctest.h>

#include "engine_test_kit.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

struct Shards {
  explicit Shards(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ns.push_back(kit.open_namespace(small_model("shard " + std::to_string(i)), kit.caller()).ns);
    }
  }
  void put(std::size_t shard, std::size_t blocks) {
    const std::vector<std::uint32_t> tokens(
        sequence.tokens.begin(),
        sequence.tokens.begin() + static_cast<std::ptrdiff_t>(16 * blocks));
    REQUIRE(kit.put(kit.caller(), ns[shard], tokens,
                    {sequence.blocks.begin(),
                     sequence.blocks.begin() + static_cast<std::ptrdiff_t>(blocks)},
                    true)
                .ok());
  }
  Result<std::vector<LeaseGrant>> lookup(std::vector<NamespaceId> of) {
    std::vector<Selection> shards;
    for (const NamespaceId one : of) shards.push_back(by_tokens(one, sequence.tokens));
    return kit.await<std::vector<LeaseGrant>>([&](auto done) {
      kit.engine().group_lookup(kit.caller(), std::move(shards), Milliseconds(10000),
                                std::move(done));
    });
  }
  std::uint64_t leases() { return kit.engine().stats(kit.caller()).leases.active; }

  EngineKit kit;
  Sequence16 sequence = make_sequence(1, 6);
  std::vector<NamespaceId> ns;
};

}  // namespace

TEST_CASE("A group lookup has one length for all shards, that of the shortest") {
  Shards shards(3);
  shards.put(0, 6);
  shards.put(1, 4);
  shards.put(2, 5);
  const auto grants = shards.lookup(shards.ns);
  REQUIRE(grants.ok());
  REQUIRE(grants->size() == 3);
  for (const LeaseGrant& grant : *grants) {
    CHECK(grant.tiers.size() == 4);
    CHECK(shards.kit.engine().release(shards.kit.caller(), grant.lease).ok());
  }
  CHECK(shards.leases() == 0);
  const auto counted = shards.kit.engine().stats(shards.kit.caller()).counters;
  CHECK(counted.at("lookups") == 3);
  CHECK(counted.at("lookup_blocks") == 18);
  CHECK(counted.at("miss_blocks") == 3);
}

TEST_CASE("A group lookup of which one shard has nothing holds nothing") {
  Shards shards(2);
  shards.put(0, 6);
  const auto grants = shards.lookup(shards.ns);
  REQUIRE(grants.ok());
  for (const LeaseGrant& grant : *grants) CHECK(grant.tiers.empty());
  CHECK(shards.leases() == 0);
}

TEST_CASE("A group lookup with one wrong shard is refused as a whole") {
  Shards shards(2);
  shards.put(0, 6);
  const auto grants = shards.lookup({shards.ns[0], NamespaceId{12345}});
  REQUIRE_FALSE(grants.ok());
  CHECK(shards.leases() == 0);
  CHECK_FALSE(shards.lookup({}).ok());
}
