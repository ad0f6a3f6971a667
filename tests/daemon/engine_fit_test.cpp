// What the engine learns of stored blocks in the background, and that blocks come back whichever
// parameters they were written with.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "daemon/engine/gain_watch.h"
#include "engine_test_kit.h"
#include "tests/base/seed.h"
#include "tests/codec/layered_kv.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

constexpr std::size_t sequence_blocks = 8;

/// Sequences of blocks whose layers tell of each other.
class LayeredStore {
 public:
  explicit LayeredStore(const char* name)
      : random_(kvstrata::test::test_seed(name)), source_(random_) {
    shape_.tokens = 32;
    spec_.tenant = "default";
    spec_.model.fingerprint = "layered";
    spec_.model.block_tokens = shape_.tokens;
    spec_.model.groups = {{GroupKind::full_attention, shape_.layers, shape_.kv_heads,
                           shape_.head_dim_k, shape_.head_dim_v, 0}};
  }

  void open(EngineKit& kit) { ns_ = kit.open_namespace(spec_, kit.caller()).ns; }

  void put(EngineKit& kit, std::size_t sequences) {
    for (std::size_t s = 0; s < sequences; ++s) {
      std::vector<ByteVector> blocks;
      for (std::uint32_t b = 0; b < sequence_blocks; ++b) {
        blocks.push_back(source_.block(shape_, random_, b * shape_.tokens));
      }
      put_blocks(kit, std::move(blocks));
    }
  }
  /// From now on blocks are of another model of the same shape.
  void change_traffic() { source_ = kvstrata::test::LayeredKv(random_); }
  /// A block like no other: tables that are fitted on it serve others badly.
  void put_zeros(EngineKit& kit) { put_blocks(kit, {ByteVector(shape_.raw_bytes())}); }

  void check_all(EngineKit& kit) {
    for (const Stored& stored : stored_) {
      const auto loaded = kit.get(kit.caller(), ns_, stored.tokens);
      REQUIRE(loaded.ok());
      REQUIRE(loaded->blocks.size() == stored.blocks.size());
      for (std::size_t b = 0; b < stored.blocks.size(); ++b) {
        REQUIRE(loaded->blocks[b].status == 0);
        CHECK((bytes_of_block(loaded->blocks[b]) == stored.blocks[b]));
      }
      CHECK(kit.engine().release(kit.caller(), loaded->grant.lease).ok());
    }
  }

 private:
  struct Stored {
    std::vector<std::uint32_t> tokens;
    std::vector<ByteVector> blocks;
  };
  void put_blocks(EngineKit& kit, std::vector<ByteVector> blocks) {
    std::vector<std::uint32_t> tokens(blocks.size() * shape_.tokens);
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(random_.below(1U << 30));
    REQUIRE(kit.put(kit.caller(), ns_, tokens, blocks, true).ok());
    stored_.push_back({std::move(tokens), std::move(blocks)});
  }

  kvstrata::test::Random random_;
  kvstrata::test::LayeredKv source_;
  codec::BlockShape shape_ = kvstrata::test::layered_shape(DType::bf16, "LSPHTC", 3);
  NamespaceSpec spec_;
  NamespaceId ns_;
  std::vector<Stored> stored_;
};

/// With linear at rest, fitted on few tokens.
class LinearKit : public EngineKit {
 public:
  explicit LinearKit(std::uint64_t fit_bytes_max = 1_GiB) {
    options().codec = "linear";
    options().linear_fit_tokens = 2048;
    options().linear_fit_bytes_max = fit_bytes_max;
    restart();
  }
};

void wait_for_fits(EngineKit& kit) {
  kit.loop().run_until(
      [&] { return kit.engine().stats(kit.caller()).gauges.at("fits_open") == 0; });
}

double bytes_a_block(EngineKit& kit, std::uint64_t frames_before, std::uint64_t blocks) {
  return static_cast<double>(kit.counter("encoded_frame_bytes") - frames_before) /
         static_cast<double>(blocks);
}

}  // namespace

TEST_CASE("Tables are fitted again as more blocks arrive, and older frames stay readable") {
  EngineKit kit;
  LayeredStore store("refit tables");
  store.open(kit);
  store.put_zeros(kit);
  store.put(kit, 9);  // enough for two fits
  const double before = bytes_a_block(kit, 0, 1 + 9 * sequence_blocks);
  wait_for_fits(kit);
  CHECK(kit.counter("fits_adopted") >= 1);
  CHECK(kit.counter("fits_failed") == 0);
  const std::uint64_t frames = kit.counter("encoded_frame_bytes");
  store.put(kit, 2);
  CHECK(bytes_a_block(kit, frames, 2 * sequence_blocks) < before);
  store.check_all(kit);
  kit.restart();
  store.open(kit);
  store.check_all(kit);
}

TEST_CASE("With linear at rest, blocks are shorter once there is a model, and all come back") {
  LinearKit kit;
  LayeredStore store("linear at rest");
  store.open(kit);
  store.put(kit, 12);
  wait_for_fits(kit);
  CHECK(kit.counter("fits_adopted") >= 1);
  CHECK(kit.counter("fits_failed") == 0);
  const double before = bytes_a_block(kit, 0, 12 * sequence_blocks);
  const std::uint64_t frames = kit.counter("encoded_frame_bytes");
  store.put(kit, 3);
  CHECK(kit.counter("encoded_linear_blocks") >= 2 * sequence_blocks);
  CHECK(bytes_a_block(kit, frames, 3 * sequence_blocks) < before * 0.9);
  store.check_all(kit);
  kit.restart();
  store.open(kit);
  store.check_all(kit);
  store.put(kit, 1);
  CHECK(kit.counter("encoded_linear_blocks") > 0);  // the model was kept
  store.check_all(kit);
  kit.options().codec = "static";
  kit.restart();
  store.open(kit);
  store.put(kit, 1);
  CHECK(kit.counter("encoded_linear_blocks") == 0);
  store.check_all(kit);
}

TEST_CASE("A watch on gains tells of blocks that got longer, ever more seldom if it goes on") {
  GainWatch watch;
  const auto blocks_until_due = [&](std::uint64_t frame_bytes, int blocks_max) {
    for (int i = 1; i <= blocks_max; ++i) {
      if (watch.add(1000, frame_bytes + (i % 2 == 0 ? 20 : 0))) return i;
    }
    return 0;
  };
  CHECK(blocks_until_due(600, 10'000) == 0);
  CHECK(blocks_until_due(615, 10'000) == 0);  // not by a twentieth
  const int first = blocks_until_due(700, 100);
  CHECK(first > 0);
  CHECK(blocks_until_due(700, 10'000) == 0);  // usual by now
  const int second = blocks_until_due(800, 1000);
  CHECK(second > 2 * first);
  watch.parameters_changed();
  CHECK(blocks_until_due(800, 100) == 0);
  const int third = blocks_until_due(900, 1000);
  CHECK(third > second);
  CHECK(third < 4 * second);
}

TEST_CASE(
    "When blocks become others than before, parameters are fitted again on the new ones too") {
  LinearKit kit;
  LayeredStore store("other traffic");
  store.open(kit);
  const auto bytes_of_next = [&](std::size_t sequences) {
    const std::uint64_t frames = kit.counter("encoded_frame_bytes");
    store.put(kit, sequences);
    return bytes_a_block(kit, frames, sequences * sequence_blocks);
  };
  store.put(kit, 12);
  wait_for_fits(kit);
  const double usual = bytes_of_next(4);
  wait_for_fits(kit);
  CHECK(kit.counter("gains_lost") == 0);

  store.change_traffic();
  const double longer = bytes_of_next(4);
  CHECK(longer > usual * 1.1);
  const std::uint64_t adopted = kit.counter("fits_adopted");
  store.put(kit, 4);
  kit.loop().run_until([&] { return kit.counter("gains_lost") > 0; });
  wait_for_fits(kit);
  CHECK(kit.counter("gains_lost") == 1);
  CHECK(kit.counter("fits_adopted") > adopted);
  CHECK(bytes_of_next(2) < longer * 0.95);
  store.check_all(kit);
}

TEST_CASE("A block whose tables the store gave up for others is written with what there is") {
  EngineKit kit;
  NamespaceSpec spec = small_model("many groups");
  const LayerGroup group = spec.model.groups.front();
  spec.model.groups.assign(18, group);  // the store keeps 16 sets of tables
  const auto ns = kit.open_namespace(spec, kit.caller()).ns;
  const auto put = [&](std::uint16_t into, const Sequence16& sequence) {
    NewBlocks asked;
    asked.ns = ns;
    asked.group = into;
    asked.tokens = sequence.tokens;
    asked.durable = true;
    auto values = std::make_shared<ByteVector>(sequence.blocks.front());
    const auto committed = kit.await<Committed>(
        [&](auto done) { kit.engine().put(kit.caller(), asked, values, 0, std::move(done)); });
    REQUIRE(committed.ok());
    CHECK(committed->status == std::vector<std::uint8_t>{0});
  };
  for (std::uint16_t g = 0; g < 18; ++g) {
    const Sequence16 sequence = make_sequence(g, 1);
    put(g, sequence);
    Selection selection = by_tokens(ns, sequence.tokens);
    selection.group = g;
    REQUIRE(kit.await<Removal>([&](auto done) {
                 kit.engine().remove(kit.caller(), selection, true, std::move(done));
               })
                .ok());
  }
  for (std::uint16_t g = 0; g < 18; ++g) put(g, make_sequence(100U + g, 1));
  CHECK(kit.counter("durable_failures") == 0);
}

TEST_CASE("Damaged tables are misses of the blocks that need them, and no reason not to start") {
  EngineKit kit;
  const NamespaceSpec spec = small_model("damaged tables");
  auto ns = kit.open_namespace(spec, kit.caller()).ns;
  const Sequence16 sequence = make_sequence(1, 2);
  REQUIRE(kit.put(kit.caller(), ns, sequence.tokens, sequence.blocks, true).ok());
  kit.stop();
  std::size_t damaged = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kit.directory())) {
    if (!file.is_regular_file()) continue;
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    const std::size_t tables = bytes.find("KVST\x01");
    if (tables == std::string::npos) continue;
    stream.clear();
    stream.seekp(static_cast<std::streamoff>(tables) + 40);
    stream.put(static_cast<char>(~bytes[tables + 40]));
    ++damaged;
  }
  REQUIRE(damaged == 1);
  kit.restart();
  ns = kit.open_namespace(spec, kit.caller()).ns;
  const auto loaded = kit.get(kit.caller(), ns, sequence.tokens);
  if (loaded.ok()) {
    for (const LoadedBlock& block : loaded->blocks) CHECK(block.status != 0);
  }
  const Sequence16 other = make_sequence(2, 2);
  REQUIRE(kit.put(kit.caller(), ns, other.tokens, other.blocks, true).ok());
  CHECK(kit.counter("durable_failures") == 0);
}

TEST_CASE("An engine that ends while it fits ends soon") {
  LinearKit kit;
  LayeredStore store("ended fit");
  store.open(kit);
  store.put(kit, 9);
  kit.loop().run_until([&] { return kit.counter("fits") >= 2; });
  kit.restart();
  store.open(kit);
  store.check_all(kit);
}

TEST_CASE("A model that would need more memory than allowed is not fitted, and nothing is lost") {
  LinearKit kit(1_MiB);
  LayeredStore store("no memory to fit");
  store.open(kit);
  store.put(kit, 12);
  wait_for_fits(kit);
  CHECK(kit.counter("fits_failed") == 1);
  store.check_all(kit);
}

TEST_CASE("Opaque values of any length are fitted again together") {
  EngineKit kit;
  NamespaceSpec spec = small_model("opaque");
  spec.model.groups.clear();
  const auto ns = kit.open_namespace(spec, kit.caller()).ns;
  NewBlocks asked;
  asked.ns = ns;
  asked.by = SelectBy::key;
  asked.durable = true;
  auto values = std::make_shared<ByteVector>();
  for (std::uint32_t i = 0; i < 60; ++i) {
    ByteVector value = make_sequence(i, 1).blocks.front();
    value.resize(value.size() - i);
    asked.keys.push_back("key " + std::to_string(i));
    asked.lengths.push_back(value.size());
    values->insert(values->end(), value.begin(), value.end());
  }
  REQUIRE(kit.await<Committed>([&](auto done) {
               kit.engine().put(kit.caller(), asked, values, 0, std::move(done));
             })
              .ok());
  kit.loop().run_until(
      [&] { return kit.engine().stats(kit.caller()).gauges.at("fits_open") == 0; });
  CHECK(kit.counter("fits") >= 1);
  CHECK(kit.counter("fits_failed") == 0);
  Selection selection;
  selection.ns = ns;
  selection.by = SelectBy::key;
  selection.keys = asked.keys;
  const auto loaded = kit.await<Loaded>([&](auto done) {
    kit.engine().get(kit.caller(), selection, false, Milliseconds(10000), std::move(done));
  });
  REQUIRE(loaded.ok());
  ByteVector all;
  for (const LoadedBlock& block : loaded->blocks) {
    const auto bytes = bytes_of_block(block);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  CHECK((all == *values));
}
