#include <doctest/doctest.h>

#include <algorithm>

#include "engine_test_kit.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

void check_stored(EngineKit& kit, const Caller& by, NamespaceId ns, const Sequence16& sequence) {
  auto loaded = kit.get(by, ns, sequence.tokens);
  REQUIRE(loaded.ok());
  REQUIRE(loaded->blocks.size() == sequence.blocks.size());
  for (std::size_t i = 0; i < sequence.blocks.size(); ++i) {
    REQUIRE(loaded->blocks[i].status == 0);
    CHECK(bytes_of_block(loaded->blocks[i]) == sequence.blocks[i]);
  }
  CHECK(kit.engine().release(by, loaded->grant.lease).ok());
}

}  // namespace

TEST_CASE("A committed block is visible at once, to other connections of the tenant too") {
  EngineKit kit;
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto sequence = make_sequence(1, 3);
  const auto committed = kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks);
  REQUIRE(committed.ok());
  CHECK(committed->status == std::vector<std::uint8_t>{0, 0, 0});
  check_stored(kit, kit.caller(2), ns, sequence);
}

TEST_CASE("A flushed block survives a restart bit-exact") {
  EngineKit kit;
  const auto sequence = make_sequence(2, 5);
  auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  REQUIRE(kit.flush(kit.caller()).ok());
  kit.restart();
  ns = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto lease = kit.lookup(kit.caller(), ns, sequence.tokens);
  REQUIRE(lease.ok());
  CHECK(lease->tiers == std::vector<Tier>(5, Tier::disk));
  check_stored(kit, kit.caller(), ns, sequence);
}

TEST_CASE("A durable put is on disk when it is answered") {
  EngineKit kit;
  const auto sequence = make_sequence(3, 2);
  auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  kit.restart();
  ns = kit.open_namespace(small_model(), kit.caller()).ns;
  check_stored(kit, kit.caller(), ns, sequence);
}

TEST_CASE("A block counts as being encoded until the encoder gave it back") {
  EngineKit kit;
  kit.options().codec = "raw";  // no tables to fit first
  kit.restart();
  const auto sequence = make_sequence(1, 3);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  const auto encoding = [&] {
    return kit.engine().stats(kit.caller()).gauges.at("encoding_blocks");
  };
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  CHECK(encoding() > 0);
  REQUIRE(kit.flush(kit.caller()).ok());
  CHECK(encoding() == 0);
}

TEST_CASE("An evicted block is read from disk again") {
  EngineKit kit;
  const auto sequence = make_sequence(4, 8);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  const auto evicted = kit.await<Removal>(
      [&](auto done) { kit.engine().evict(kit.caller(), 1_GiB, std::move(done)); });
  REQUIRE(evicted.ok());
  CHECK(evicted->removed_blocks == 8);
  check_stored(kit, kit.caller(), ns, sequence);
  CHECK(kit.engine().stats(kit.caller()).counters.at("load_blocks_disk") == 8);
}

TEST_CASE(
    "A17: the same bytes under a key exist already, other bytes are refused and the first stay") {
  EngineKit kit;
  const auto sequence = make_sequence(5, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  const auto again = kit.put(kit.caller(2), ns, sequence.tokens, sequence.blocks);
  REQUIRE(again.ok());
  CHECK(again->status.front() == static_cast<std::uint8_t>(ErrorKind::exists));
  const auto other = make_sequence(6, 1);
  const auto refused = kit.put(kit.caller(2), ns, sequence.tokens, other.blocks);
  REQUIRE(refused.ok());
  CHECK(refused->status.front() == static_cast<std::uint8_t>(ErrorKind::conflict));
  CHECK(kit.engine().stats(kit.caller()).counters.at("put_conflicts") == 1);
  check_stored(kit, kit.caller(), ns, sequence);
}

TEST_CASE(
    "A17: of many clients that put one key at once, one stores and the others find it exists") {
  EngineKit kit;
  const auto sequence = make_sequence(7, 1);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  std::size_t answered = 0;
  std::vector<std::uint8_t> status;
  for (std::uint64_t client = 0; client < 16; ++client) {
    NewBlocks asked;
    asked.ns = ns;
    asked.tokens = sequence.tokens;
    kit.engine().put(kit.caller(client), asked,
                     std::make_shared<const ByteVector>(sequence.blocks[0]), 0,
                     [&](const Result<Committed>& committed) {
                       ++answered;
                       REQUIRE(committed.ok());
                       status.push_back(committed->status.front());
                     });
  }
  kit.loop().run_until([&] { return answered == 16; });
  CHECK(std::ranges::count(status, 0) == 1);
  CHECK(std::ranges::count(status, static_cast<std::uint8_t>(ErrorKind::exists)) == 15);
}

TEST_CASE("A4: a namespace of another dtype, page size or head count never sees the blocks") {
  EngineKit kit;
  const auto sequence = make_sequence(8, 4);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  auto fp8 = small_model();
  fp8.model.dtype = DType::fp8_e4m3;
  auto wide = small_model();
  wide.model.block_tokens = 64;
  auto heads = small_model();
  heads.model.groups[0].kv_heads = 4;
  for (const auto& spec : {fp8, wide, heads}) {
    const auto other = kit.open_namespace(spec, kit.caller()).ns;
    const auto lease = kit.lookup(kit.caller(), other, sequence.tokens);
    REQUIRE(lease.ok());
    CHECK(lease->tiers.empty());
  }
}

TEST_CASE(
    "A7: tokens that are not whole blocks are refused, and found only up to the last whole block") {
  EngineKit kit;
  const auto sequence = make_sequence(9, 2);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks).ok());
  for (const std::size_t length : {1UL, 15UL, 16UL, 17UL, 31UL, 32UL}) {
    std::vector<std::uint32_t> tokens(
        sequence.tokens.begin(), sequence.tokens.begin() + static_cast<std::ptrdiff_t>(length));
    const auto lease = kit.lookup(kit.caller(), ns, tokens);
    REQUIRE(lease.ok());
    CHECK(lease->tiers.size() == length / 16);
  }
  auto partial = sequence.tokens;
  partial.pop_back();
  const auto refused = kit.put(kit.caller(), ns, partial, sequence.blocks);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind() == ErrorKind::invalid_argument);
}

TEST_CASE("A6: a token id outside the vocabulary is refused, not wrapped") {
  EngineKit kit;
  auto spec = small_model();
  spec.model.vocab_size = 50000;
  const auto ns = kit.open_namespace(spec, kit.caller()).ns;
  auto sequence = make_sequence(10, 1);
  sequence.tokens[3] = 50000;
  const auto refused = kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind() == ErrorKind::invalid_argument);
  CHECK_FALSE(kit.lookup(kit.caller(), ns, sequence.tokens).ok());
}

TEST_CASE("A block of the wrong length is refused by name") {
  EngineKit kit;
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  auto sequence = make_sequence(11, 1);
  sequence.blocks[0].pop_back();
  const auto refused = kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind() == ErrorKind::invalid_argument);
}

TEST_CASE("Values of opaque keys of any length come back, empty ones too") {
  EngineKit kit;
  NamespaceSpec spec = small_model("opaque");
  spec.model.groups.clear();
  auto ns = kit.open_namespace(spec, kit.caller()).ns;
  NewBlocks asked;
  asked.ns = ns;
  asked.by = SelectBy::key;
  asked.durable = true;
  auto values = std::make_shared<ByteVector>();
  for (const std::uint64_t length : {0, 1, 2, 3, 4095, 4096, 4097, 100001}) {
    asked.keys.push_back("key-" + std::to_string(length));
    asked.lengths.push_back(length);
    for (std::uint64_t i = 0; i < length; ++i) values->push_back(static_cast<std::byte>(i * 7));
  }
  REQUIRE(kit.await<Committed>([&](auto done) {
               kit.engine().put(kit.caller(), asked, values, 0, std::move(done));
             })
              .ok());
  kit.restart();
  ns = kit.open_namespace(spec, kit.caller()).ns;
  Selection selection;
  selection.ns = ns;
  selection.by = SelectBy::key;
  selection.keys = asked.keys;
  selection.keys.insert(selection.keys.begin() + 2, "never stored");
  const auto loaded = kit.await<Loaded>([&](auto done) {
    kit.engine().get(kit.caller(), selection, false, Milliseconds(10000), std::move(done));
  });
  REQUIRE(loaded.ok());
  REQUIRE(loaded->blocks.size() == 9);
  CHECK(loaded->blocks[2].status == static_cast<std::uint8_t>(ErrorKind::not_found));
  ByteVector all;
  for (const LoadedBlock& block : loaded->blocks) {
    if (block.status != 0) continue;
    const auto bytes = bytes_of_block(block);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  CHECK(all == *values);
}

TEST_CASE("A block that several workers decode comes back whole") {
  EngineKit kit(64_MiB);
  kit.options().worker_threads = 4;
  kit.restart();
  NamespaceSpec spec = small_model("large");
  spec.model.groups = {{GroupKind::full_attention, 64, 8, 64, 64, 0}};  // 2 MiB a block
  auto ns = kit.open_namespace(spec, kit.caller()).ns;
  Sequence16 sequence = make_sequence(9, 3);
  for (ByteVector& block : sequence.blocks) {
    const ByteVector part = block;
    while (block.size() < 2_MiB) block.insert(block.end(), part.begin(), part.end());
  }
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  kit.restart();
  ns = kit.open_namespace(spec, kit.caller()).ns;
  check_stored(kit, kit.caller(), ns, sequence);
  CHECK(kit.counter("load_blocks_disk") == 3);
  CHECK(kit.counter("load_failures") == 0);
}

TEST_CASE("Blocks beyond the host tier go to disk and stay readable") {
  EngineKit kit(16_MiB);
  const auto ns = kit.open_namespace(small_model(), kit.caller()).ns;
  std::vector<Sequence16> sequences;
  for (std::uint32_t i = 0; i < 60; ++i) {
    sequences.push_back(make_sequence(100 + i, 100));
    const auto& sequence = sequences.back();
    REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  }
  for (const auto& sequence : sequences) check_stored(kit, kit.caller(), ns, sequence);
  const auto stats = kit.engine().stats(kit.caller());
  CHECK(stats.counters.at("evicted_blocks") > 0);
  CHECK(stats.arena.chunk_bytes + stats.arena.zombie_bytes <= 16_MiB);
}
