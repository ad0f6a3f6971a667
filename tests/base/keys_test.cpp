#include "kvstrata/keys.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "tests/base/seed.h"

namespace kvstrata::test {

namespace {

using Tokens = std::vector<std::uint32_t>;

const Hash256 parent = namespace_hash({"tenant", {}, "", "", {}, 0});

Tokens counting(std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0U);
  return tokens;
}

/// A block of 64 tokens with one changed.
Tokens with(std::size_t at, std::uint32_t token) {
  Tokens tokens = counting(64);
  tokens[at] = token;
  return tokens;
}

Hash256 hash_of(const Tokens& tokens, const std::vector<std::string>& extra = {}) {
  return block_hash(parent, tokens, extra);
}

}  // namespace

TEST_CASE("A6: token ids that agree in their low bits have different keys") {
  for (const std::uint32_t added : {1U << 8, 1U << 16, 1U << 24, 1U << 31}) {
    for (const std::size_t at : {0UL, 31UL, 63UL}) {
      CHECK(hash_of(with(at, 65)) != hash_of(with(at, 65 + added)));
    }
  }
}

TEST_CASE("The order of two token ids makes another key") {
  for (std::size_t at = 0; at + 1 < 64; ++at) {
    Tokens swapped = counting(64);
    std::swap(swapped[at], swapped[at + 1]);
    CHECK(hash_of(swapped) != hash_of(counting(64)));
  }
}

TEST_CASE("Token ids that read the same one after another have different keys") {
  CHECK(hash_of({1, 23}) != hash_of({12, 3}));
  CHECK(hash_of({0x01020304, 0}) != hash_of({0x0304, 0x0102}));
}

TEST_CASE("Token ids outside the declared range are refused, not wrapped") {
  CHECK(validate_tokens(counting(64), 64).ok());
  const Status status = validate_tokens(counting(64), 63);
  CHECK(status.error().kind() == ErrorKind::invalid_argument);
  CHECK(status.error().message() == "token id 63 at position 63 is not below 63");
  const auto minus_one = static_cast<std::uint32_t>(-1);
  for (const std::uint32_t vocab_size : {0U, 151'936U, 1U << 31}) {
    CHECK_FALSE(validate_tokens(Tokens{minus_one}, vocab_size).ok());
    CHECK_FALSE(validate_tokens(Tokens{1U << 31}, vocab_size).ok());
  }
  CHECK(validate_tokens(Tokens{(1U << 31) - 1}, 0).ok());
  CHECK(validate_tokens(Tokens{}, 1).ok());
}

TEST_CASE("A block's key depends on all blocks before it") {
  Tokens tokens = counting(64);
  const auto before = prefix_hashes(parent, tokens, 16);
  tokens[20] += 1000;  // block 1
  const auto after = prefix_hashes(parent, tokens, 16);
  REQUIRE(before.size() == 4);
  CHECK(before[0] == after[0]);
  for (std::size_t i = 1; i < 4; ++i) CHECK(before[i] != after[i]);
}

TEST_CASE("A prefix has the keys of the longer sequence, and a partial block has none") {
  const Tokens tokens = counting(64);
  const auto all = prefix_hashes(parent, tokens, 16);
  for (std::size_t length = 0; length <= 64; ++length) {
    const auto some = prefix_hashes(parent, std::span(tokens).first(length), 16);
    REQUIRE(some.size() == length / 16);
    CHECK(std::equal(some.begin(), some.end(), all.begin()));
  }
}

TEST_CASE("Prefix hashes are the chain of block hashes") {
  const Tokens tokens = counting(32);
  const auto hashes = prefix_hashes(parent, tokens, 16);
  CHECK(hashes[0] == block_hash(parent, std::span(tokens).first(16)));
  CHECK(hashes[1] == block_hash(hashes[0], std::span(tokens).last(16)));
}

TEST_CASE("Extra keys are told apart by number, length and order") {
  const std::vector<std::vector<std::string>> lists = {{},
                                                       {""},
                                                       {"", ""},
                                                       {"a"},
                                                       {"ab"},
                                                       {"a", "b"},
                                                       {"b", "a"},
                                                       {"a", ""},
                                                       {"", "a"},
                                                       {"abc"},
                                                       {"ab", "c"},
                                                       {"a", "bc"},
                                                       {std::string(1, '\0')}};
  std::set<Hash256> hashes;
  for (const auto& list : lists) hashes.insert(hash_of(counting(16), list));
  CHECK(hashes.size() == lists.size());
}

namespace {

/// 32-byte image ids, among them pairs that agree in all but their last or first 16, 32, 48 bits.
std::vector<std::string> image_ids(std::size_t count) {
  Random random(test_seed("image ids"));
  std::vector<std::string> ids;
  while (ids.size() < count) {
    std::string id(32, '\0');
    for (char& c : id) c = static_cast<char>(random.bits());
    ids.push_back(id);
    for (const std::size_t bytes : {2UL, 4UL, 6UL}) {
      std::string same_head = id, same_tail = id;
      for (std::size_t i = bytes; i < 32; ++i) same_head[i] = static_cast<char>(random.bits());
      for (std::size_t i = 0; i < 32 - bytes; ++i) same_tail[i] = static_cast<char>(random.bits());
      ids.push_back(same_head);
      ids.push_back(same_tail);
    }
  }
  ids.resize(count);
  return ids;
}

}  // namespace

TEST_CASE(
    "A3: images that agree in their first or last bits share no key in any block they touch") {
  constexpr std::size_t count = 5000;
  const Tokens placeholders(64, 151'655);
  const Tokens text = counting(64);
  std::set<Hash256> in_first, in_second;
  const Hash256 before = block_hash(parent, text);  // the picture starts in the middle of block 1
  for (const std::string& id : image_ids(count)) {
    const std::vector<std::string> extra{id};
    const Hash256 first = block_hash(before, placeholders, extra);
    in_first.insert(first);
    in_second.insert(block_hash(first, placeholders, extra));
  }
  CHECK(in_first.size() == count);
  CHECK(in_second.size() == count);
}

TEST_CASE("A picture changes the keys from its own first block on, not before") {
  const Tokens text = counting(64);
  const Hash256 shared = block_hash(parent, text);
  const std::vector<std::string> one{"image one"}, two{"image two"};
  const Hash256 with_one = block_hash(shared, text, one);
  const Hash256 with_two = block_hash(shared, text, two);
  CHECK(with_one != with_two);
  CHECK(with_one != block_hash(shared, text));
  CHECK(block_hash(with_one, text) != block_hash(with_two, text));
}

TEST_CASE("Opaque keys are compared whole, and are never prefix hashes") {
  std::set<Hash256> hashes;
  for (const std::string& key : {std::string("a"), std::string("b"), std::string("ab"),
                                 std::string("a\0", 2), std::string(256, 'a')}) {
    hashes.insert(opaque_hash(parent, as_bytes(key)));
  }
  CHECK(hashes.size() == 5);
  const Tokens tokens = counting(16);
  CHECK(opaque_hash(parent, bytes_of(std::span<const std::uint32_t>(tokens))) != hash_of(tokens));
  CHECK(opaque_hash(hash_of(tokens), as_bytes("a")) != opaque_hash(parent, as_bytes("a")));
}

TEST_CASE("A hash survives its hex form, and other text is no hash") {
  const Hash256 hash = hash_of(counting(16));
  const std::string hex = hash.hex();
  CHECK(hex.size() == 64);
  CHECK(Hash256::from_hex(hex).value() == hash);
  std::string upper = hex;
  for (char& c : upper) c = c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  for (const std::string& text : {std::string(), hex.substr(1), hex + "0", upper + "",
                                  "g" + hex.substr(1), " " + hex.substr(1)}) {
    if (text == hex) continue;  // a hash without letters
    CHECK(Hash256::from_hex(text).error().kind() == ErrorKind::invalid_argument);
  }
}

TEST_CASE("Block keys differ by namespace, digest and group") {
  const BlockKey key{NamespaceId{1}, hash_of(counting(16)), 0};
  const BlockKey other_namespace{NamespaceId{2}, key.digest, 0};
  const BlockKey other_group{NamespaceId{1}, key.digest, 1};
  const BlockKey other_digest{NamespaceId{1}, hash_of(counting(17)), 0};
  CHECK(std::set{key, other_namespace, other_group, other_digest}.size() == 4);
  CHECK(std::hash<BlockKey>{}(key) != std::hash<BlockKey>{}(other_group));
}

}  // namespace kvstrata::test
