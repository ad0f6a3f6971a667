#include <doctest/doctest.h>

#include "daemon/protocol/new_blocks_body.h"
#include "daemon/protocol/selection_body.h"
#include "tests/daemon/protocol_kit.h"

using namespace kvstrata;
using namespace kvstrata::protocol;

namespace {

std::vector<Hash256> random_hashes(test::Random& random, std::size_t count) {
  std::vector<Hash256> hashes(count);
  for (Hash256& hash : hashes) {
    for (std::byte& byte : hash.bytes) byte = static_cast<std::byte>(random.below(256));
  }
  return hashes;
}

std::vector<std::uint32_t> random_tokens(test::Random& random, std::size_t count) {
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::uint32_t>(random.bits());
  return tokens;
}

std::vector<std::string> random_keys(test::Random& random, std::size_t count) {
  std::vector<std::string> keys(count);
  for (auto& key : keys) key = "k" + test::random_text(random, 255);
  return keys;
}

Extras random_extras(test::Random& random) {
  Extras extras;
  for (std::uint64_t blocks = random.below(4); blocks > 0; --blocks) {
    extras[static_cast<std::uint32_t>(random.below(16384))] = {test::random_text(random, 256), ""};
  }
  return extras;
}

WireSelection random_selection(test::Random& random) {
  WireSelection selection;
  selection.ns = static_cast<std::uint32_t>(random.bits());
  selection.group = static_cast<std::uint16_t>(random.below(3));
  selection.by = static_cast<SelectBy>(random.below(3));
  const std::size_t count = random.below(50);
  if (selection.by == SelectBy::hash) selection.hashes = random_hashes(random, count);
  if (selection.by == SelectBy::tokens) selection.tokens = random_tokens(random, count);
  if (selection.by == SelectBy::tokens) selection.extras = random_extras(random);
  if (selection.by == SelectBy::key) selection.keys = random_keys(random, count);
  return selection;
}

struct Encoded {
  Body body;
  ByteVector payload;
};

Encoded encode(const WireSelection& selection) {
  Encoded encoded;
  REQUIRE(encode_selection(selection.view(), encoded.body, encoded.payload).ok());
  return encoded;
}

WireNewBlocks random_new_blocks(test::Random& random) {
  WireNewBlocks blocks;
  blocks.ns = static_cast<std::uint32_t>(random.bits());
  blocks.group = static_cast<std::uint16_t>(random.below(3));
  blocks.by = random.one_in(2) ? SelectBy::tokens : SelectBy::key;
  if (blocks.by == SelectBy::tokens) {
    blocks.tokens = random_tokens(random, random.below(100));
    blocks.extras = random_extras(random);
  } else {
    blocks.keys = random_keys(random, random.below(10));
  }
  if (random.one_in(2)) blocks.parent = random_hashes(random, 1).front();
  if (random.one_in(2)) blocks.ttl_ms = random.bits();
  blocks.durable = random.one_in(2);
  blocks.pinned = random.one_in(2);
  for (std::uint64_t values = random.below(5); values > 0; --values) {
    blocks.lengths.push_back(random.below(1000));
  }
  return blocks;
}

template <typename T>
std::string why(const Result<T>& result) {
  REQUIRE(!result.ok());
  CHECK(result.error().kind() == ErrorKind::invalid_argument);
  return result.error().message();
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("Every selection comes back as it was") {
  test::Random random(test::test_seed("selection round trip"));
  for (int i = 0; i < 1000; ++i) {
    const WireSelection selection = random_selection(random);
    const Encoded encoded = encode(selection);
    const auto decoded = decode_selection(*Body::parse(encoded.body.serialize()), encoded.payload);
    REQUIRE(decoded.ok());
    CHECK(*decoded == selection);
  }
}

TEST_CASE("A payload must fit its count exactly") {
  test::Random random(test::test_seed("selection payload"));
  for (int i = 0; i < 300; ++i) {
    Encoded encoded = encode(random_selection(random));
    encoded.payload.push_back(std::byte{0});
    CHECK(mentions(why(decode_selection(encoded.body, encoded.payload)), "'count'"));
    encoded.payload.pop_back();
    if (encoded.payload.empty()) continue;
    encoded.payload.pop_back();
    CHECK(!decode_selection(encoded.body, encoded.payload).ok());
  }
}

TEST_CASE("A wrong field of a selection is named") {
  const WireSelection selection{.ns = 1, .by = SelectBy::tokens, .tokens = {1, 2}};
  const auto refusal = [&](const std::function<void(Body&)>& change) {
    Encoded encoded = encode(selection);
    change(encoded.body);
    return why(decode_selection(encoded.body, encoded.payload));
  };
  CHECK(mentions(refusal([](Body& body) { body.set_text("ns", "1"); }), "'ns'"));
  CHECK(mentions(refusal([](Body& body) { body.set_u64("group", 65536); }), "'group'"));
  CHECK(mentions(refusal([](Body& body) { body.set_text("by", "luck"); }), "'by'"));
  CHECK(mentions(refusal([](Body& body) { body.set_i64("count", -1); }), "'count'"));
  CHECK(mentions(refusal([](Body& body) { body.set_u64("count", UINT32_MAX); }), "'count'"));
  CHECK(mentions(refusal([](Body& body) { body.set_u64("extras", 1); }), "'extras'"));
}

TEST_CASE("A count within its limit takes no memory for bytes that did not come") {
  Encoded encoded = encode({.ns = 1, .by = SelectBy::tokens, .tokens = {1}});
  encoded.body.set_u64("count", tokens_per_request_max);
  CHECK(mentions(why(decode_selection(encoded.body, encoded.payload)), "only 4 came"));
}

TEST_CASE("Extra keys go with tokens only") {
  Encoded encoded = encode({.ns = 1, .by = SelectBy::hash, .hashes = {Hash256{}}});
  encoded.body.set_indexed_bytes("extras", {{0, {"image"}}});
  CHECK(mentions(why(decode_selection(encoded.body, encoded.payload)), "'extras'"));
}

TEST_CASE("A key has 1 to 256 bytes at both ends of the wire") {
  Body body;
  ByteVector payload;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{257}}) {
    const WireSelection selection{.ns = 1, .by = SelectBy::key, .keys = {std::string(bytes, 'k')}};
    CHECK(!encode_selection(selection.view(), body, payload).ok());
    Body by_hand;
    by_hand.set_u64("ns", 1).set_text("by", "key").set_u64("count", 1);
    ByteVector key_bytes;
    append_le(key_bytes, static_cast<std::uint16_t>(bytes));
    key_bytes.resize(2 + bytes);
    CHECK(mentions(why(decode_selection(by_hand, key_bytes)), "1..256 bytes"));
  }
}

TEST_CASE("More names than a request may have are refused before they are sent") {
  Body body;
  ByteVector payload;
  const std::vector<Hash256> hashes(blocks_per_request_max + 1);
  const auto encoded = encode_selection({.by = SelectBy::hash, .hashes = hashes}, body, payload);
  REQUIRE(!encoded.ok());
  CHECK(encoded.error().kind() == ErrorKind::too_large);
}

TEST_CASE("Shards come back in order, and each names its own errors") {
  test::Random random(test::test_seed("shards"));
  std::vector<WireSelection> shards;
  std::vector<SelectionView> views;
  for (int i = 0; i < 5; ++i) shards.push_back(random_selection(random));
  for (const auto& shard : shards) views.push_back(shard.view());
  Encoded encoded;
  REQUIRE(encode_shards(views, encoded.body, encoded.payload).ok());
  const auto decoded = decode_shards(encoded.body, encoded.payload);
  REQUIRE(decoded.ok());
  CHECK(*decoded == shards);
  encoded.payload.push_back(std::byte{1});
  CHECK(!decode_shards(encoded.body, encoded.payload).ok());
  CHECK(mentions(why(decode_shards(Body().set_bodies("shards", std::vector{Body()}), {})),
                 "shard 0: field 'ns'"));
  CHECK(mentions(why(decode_shards(Body().set_bodies("shards", {}), {})), "'shards'"));
}

TEST_CASE("Every COMMIT comes back as it was") {
  test::Random random(test::test_seed("commit round trip"));
  for (int i = 0; i < 500; ++i) {
    WireNewBlocks blocks = random_new_blocks(random);
    blocks.slots = {random.bits(), 1};
    Encoded encoded;
    REQUIRE(encode_new_blocks(blocks.view(), encoded.body, encoded.payload).ok());
    const auto decoded = decode_commit(*Body::parse(encoded.body.serialize()), encoded.payload);
    REQUIRE(decoded.ok());
    CHECK(*decoded == blocks);
    encoded.payload.push_back(std::byte{0});
    CHECK(!decode_commit(encoded.body, encoded.payload).ok());
  }
}

TEST_CASE("Every PUT comes back with the place of its values") {
  test::Random random(test::test_seed("put round trip"));
  for (int i = 0; i < 500; ++i) {
    const WireNewBlocks blocks = random_new_blocks(random);
    Encoded encoded;
    REQUIRE(encode_new_blocks(blocks.view(), encoded.body, encoded.payload).ok());
    const std::size_t names_bytes = encoded.payload.size();
    std::size_t values_bytes = 0;
    for (const std::uint64_t length : blocks.lengths) values_bytes += length;
    encoded.payload.resize(names_bytes + values_bytes);
    const auto decoded = decode_put(encoded.body, encoded.payload);
    REQUIRE(decoded.ok());
    CHECK(decoded->blocks == blocks);
    CHECK(decoded->values_offset == names_bytes);
    encoded.payload.push_back(std::byte{0});
    CHECK(mentions(why(decode_put(encoded.body, encoded.payload)), "'lengths'"));
  }
}

TEST_CASE("New blocks are not named by hash") {
  Body body;
  ByteVector payload;
  CHECK(!encode_new_blocks({.by = SelectBy::hash}, body, payload).ok());
  body.set_u64("ns", 1).set_text("by", "hash").set_u64("count", 0);
  CHECK(mentions(why(decode_put(body, {})), "'by'"));
}

TEST_CASE("A wrong field of new blocks is named") {
  const auto refusal = [](const std::function<void(Body&)>& change) {
    const WireNewBlocks blocks{.ns = 1, .tokens = {1, 2}};
    Encoded encoded;
    REQUIRE(encode_new_blocks(blocks.view(), encoded.body, encoded.payload).ok());
    change(encoded.body);
    return why(decode_commit(encoded.body, encoded.payload));
  };
  CHECK(
      mentions(refusal([](Body& body) { body.set_bytes("parent", ByteVector(31)); }), "'parent'"));
  CHECK(mentions(refusal([](Body& body) { body.set_u64("durable", 1); }), "'durable'"));
  CHECK(mentions(refusal([](Body& body) { body.set_text("pinned", "no"); }), "'pinned'"));
  CHECK(mentions(refusal([](Body& body) { body.set_i64("ttl_ms", -1); }), "'ttl_ms'"));
  CHECK(mentions(refusal([](Body& body) { body.set_bool("lengths", true); }), "'lengths'"));
  CHECK(mentions(refusal([](Body&) {}), "'slots'"));
}
