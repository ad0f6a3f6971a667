// New blocks: through staging memory or in the message, in batches, and given back if not
// committed.
#include <doctest/doctest.h>

#include <numeric>

#include "daemon/protocol/new_blocks_body.h"
#include "tests/daemon/client_fake_peer.h"

using namespace kvstrata;
using namespace kvstrata::test;
using protocol::Body;
using protocol::ChunkKind;
using protocol::Verb;

namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

/// One block: 16 tokens, 1 MiB.
NamespaceSpec large_model() {
  NamespaceSpec spec = small_model();
  spec.model.groups = {{.layers = 32, .kv_heads = 8, .head_dim_k = 64, .head_dim_v = 64}};
  return spec;
}

void register_large(Peer& to) {
  const Message request = to.expect(Verb::register_model);
  const std::uint64_t block_bytes[] = {mebibyte};
  Body body;
  body.set_u64("ns", 5).set_bytes("hash", ByteVector(32)).set_u64("epoch", 0);
  to.reply(request, body.set_u64s("block_bytes", block_bytes));
}

Hash256 numbered(unsigned number) {
  Hash256 hash;
  hash.bytes.fill(static_cast<std::byte>(number));
  return hash;
}

/// An answer to COMMIT or PUT of blocks numbered from `first`, all with one status.
Body stored_body(unsigned first, std::size_t count, std::uint8_t status = 0) {
  std::vector<Hash256> hashes;
  for (unsigned i = 0; i < count; ++i) hashes.push_back(numbered(first + i));
  Body body;
  body.set_u64("seq", first + count).set_bytes("status", ByteVector(count, std::byte{status}));
  return body.set_bytes("hashes", bytes_of(std::span<const Hash256>(hashes)));
}

/// Answers RESERVE with slots from `first` on, and the chunk if it is new to the client.
void give_slots(Peer& to, const TestChunk& chunk, std::uint32_t first, std::size_t count,
                std::uint64_t bytes, bool announce) {
  const Message reserve = to.expect(Verb::reserve);
  KV_CHECK(*reserve.body.get_u64("slots", 1, 99) == count, "another number of slots");
  std::vector<protocol::StagingRef> slots;
  for (std::uint32_t i = 0; i < count; ++i) slots.push_back(chunk.staging(first + i, bytes));
  Body body;
  protocol::set_slots(body, slots);
  body.set_u64("expires_in_ms", 30'000);
  const protocol::ChunkAnnouncement announced[] = {chunk.announcement()};
  if (announce) protocol::set_chunks(body, announced);
  to.reply(reserve, body, {}, announce ? std::vector{chunk.fd()} : std::vector<int>{});
}

protocol::WireNewBlocks take_commit(Peer& to, Message& commit) {
  commit = to.expect(Verb::commit);
  return protocol::decode_commit(commit.body, commit.payload).value();
}

std::vector<std::uint32_t> count_up(std::size_t count) {
  std::vector<std::uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0u);
  return tokens;
}

std::vector<ByteView> views_of(const std::vector<ByteVector>& blocks) {
  return {blocks.begin(), blocks.end()};
}

}  // namespace

TEST_CASE("A small put goes in the message, with its options") {
  const std::vector<ByteVector> blocks{pattern(1024, 1), pattern(1024, 2)};
  protocol::WirePut put;
  ByteVector payload;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message request = to.expect(Verb::put);
    put = protocol::decode_put(request.body, request.payload).value();
    payload = request.payload;
    to.reply(request, stored_body(1, 2, 3));
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  const auto tokens = count_up(32);
  const ExtraKeys extra{{1, {"image"}}};
  const auto stored =
      client.put(*ns, {.tokens = tokens, .parent = numbered(9), .extra_keys = &extra},
                 views_of(blocks), {.durable = true, .pinned = true, .ttl = Milliseconds(1234)});
  REQUIRE(stored.ok());
  CHECK(stored->all_stored());  // status 3: the same bytes were there
  CHECK(stored->sequence == 3);
  CHECK(stored->hashes == std::vector{numbered(1), numbered(2)});
  peer.finish();
  CHECK(put.blocks.tokens == tokens);
  CHECK(put.blocks.parent == numbered(9));
  CHECK(put.blocks.extras == extra);
  CHECK(put.blocks.durable);
  CHECK(put.blocks.pinned);
  CHECK(put.blocks.ttl_ms == 1234);
  CHECK(std::equal(blocks[1].begin(), blocks[1].end(), payload.end() - 1024));
}

TEST_CASE("A large put goes through staging memory") {
  TestChunk chunk(3, 4, mebibyte, ChunkKind::staging);
  const std::vector<ByteVector> blocks{pattern(mebibyte, 1), pattern(mebibyte, 2)};
  protocol::WireNewBlocks names;
  bool bytes_are_there = false;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    give_slots(to, chunk, 1, 2, mebibyte, true);
    Message commit;
    names = take_commit(to, commit);
    bytes_are_there = std::ranges::equal(chunk.slot(1), blocks[0]) &&
                      std::ranges::equal(chunk.slot(2), blocks[1]);
    to.reply(commit, stored_body(1, 2));
    to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  const auto tokens = count_up(32);
  const auto stored = client.put(*ns, {.tokens = tokens}, views_of(blocks));
  REQUIRE(stored.ok());
  CHECK(stored->all_stored());
  CHECK(bytes_are_there);
  CHECK(names.slots == std::vector<std::uint64_t>{101, 102});
  CHECK(names.tokens == tokens);
  CHECK(!names.parent);
}

TEST_CASE("A put of many blocks is split, each part continuing the one before") {
  TestChunk chunk(3, 64, mebibyte, ChunkKind::staging);
  const ByteVector block = pattern(mebibyte, 1);
  const std::vector<ByteView> blocks(40, block);
  const ExtraKeys extra{{0, {"a"}}, {35, {"b"}}};
  protocol::WireNewBlocks first, second;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    give_slots(to, chunk, 0, 32, mebibyte, true);
    Message first_commit, second_commit;
    first = take_commit(to, first_commit);
    give_slots(to, chunk, 32, 8, mebibyte, false);  // asked for before the commit is answered
    to.reply(first_commit, stored_body(1, 32));
    second = take_commit(to, second_commit);
    to.reply(second_commit, stored_body(33, 8));
    to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  const auto tokens = count_up(40 * 16);
  const auto stored = client.put(*ns, {.tokens = tokens, .extra_keys = &extra}, blocks);
  REQUIRE(stored.ok());
  CHECK(stored->all_stored());
  CHECK(stored->hashes.size() == 40);
  CHECK(stored->hashes.back() == numbered(40));
  CHECK(stored->sequence == 41);
  CHECK(first.tokens.size() == 32 * 16);
  CHECK(first.extras == ExtraKeys{{0, {"a"}}});
  CHECK(second.tokens.front() == 32 * 16);
  CHECK(second.parent == numbered(32));
  CHECK(second.extras == ExtraKeys{{3, {"b"}}});
}

TEST_CASE("What continues a block that was not stored is not sent") {
  TestChunk chunk(3, 64, mebibyte, ChunkKind::staging);
  const ByteVector block = pattern(mebibyte, 1);
  const std::vector<ByteView> blocks(40, block);
  const auto conflict = static_cast<std::uint8_t>(ErrorKind::conflict);
  std::vector<std::uint64_t> aborted;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    give_slots(to, chunk, 0, 32, mebibyte, true);
    Message commit;
    take_commit(to, commit);
    give_slots(to, chunk, 32, 8, mebibyte, false);
    to.reply(commit, stored_body(1, 32, conflict));
    aborted = *to.expect(Verb::abort).body.get_u64s("slots", 99);
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  const auto tokens = count_up(40 * 16);
  const auto stored = client.put(*ns, {.tokens = tokens}, blocks);
  REQUIRE(stored.ok());
  CHECK(!stored->all_stored());
  CHECK(stored->status == std::vector<std::uint8_t>(40, conflict));
  CHECK(stored->hashes.size() == 40);
  peer.finish();
  CHECK(aborted.size() == 8);
}

TEST_CASE("When staging memory is short, fewer blocks are put at a time") {
  TestChunk chunk(3, 4, mebibyte, ChunkKind::staging);
  const ByteVector block = pattern(mebibyte, 1);
  const std::vector<ByteView> blocks(4, block);
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    to.fail(to.expect(Verb::reserve), ErrorKind::busy);  // 4 slots
    give_slots(to, chunk, 0, 2, mebibyte, true);
    Message commit;
    take_commit(to, commit);
    to.fail(to.expect(Verb::reserve), ErrorKind::busy);  // the first two are in use still
    to.reply(commit, stored_body(1, 2));
    give_slots(to, chunk, 0, 2, mebibyte, false);
    take_commit(to, commit);
    to.reply(commit, stored_body(3, 2));
    to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  const auto tokens = count_up(4 * 16);
  const auto stored = client.put(*ns, {.tokens = tokens}, blocks);
  REQUIRE(stored.ok());
  CHECK(stored->hashes.back() == numbered(4));
}

TEST_CASE("A daemon that can't take a single block says why") {
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    to.fail(to.expect(Verb::reserve), ErrorKind::out_of_memory);
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  const ByteVector block = pattern(mebibyte, 1);
  const ByteView blocks[] = {block};
  const auto tokens = count_up(16);
  CHECK(client.put(*ns, {.tokens = tokens}, blocks).error().kind() == ErrorKind::out_of_memory);
}

TEST_CASE("Without shared memory a large put goes in messages of bounded size") {
  const ByteVector block = pattern(mebibyte, 1);
  const std::vector<ByteView> blocks(40, block);
  std::vector<std::size_t> counts;
  std::vector<std::optional<Hash256>> parents;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    for (unsigned done = 0; done < 40;) {
      const Message request = to.expect(Verb::put);
      const auto put = protocol::decode_put(request.body, request.payload).value();
      counts.push_back(put.blocks.lengths.size());
      parents.push_back(put.blocks.parent);
      const auto count = static_cast<unsigned>(put.blocks.lengths.size());
      to.reply(request, stored_body(done + 1, count));
      done += count;
    }
    to.wait_for_close();
  }});
  Client client = connect(peer, Milliseconds(10'000), false);
  const auto ns = client.register_model(large_model());
  const auto tokens = count_up(40 * 16);
  const auto stored = client.put(*ns, {.tokens = tokens}, blocks);
  REQUIRE(stored.ok());
  CHECK(stored->hashes.size() == 40);
  CHECK(counts == std::vector<std::size_t>{32, 8});
  CHECK(parents[1] == numbered(32));
}

TEST_CASE("Staging memory of another version is done without") {
  TestChunk chunk(3, 4, mebibyte, ChunkKind::staging);
  chunk.header().version = 2;
  const std::vector<ByteVector> blocks{pattern(mebibyte, 1)};
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    give_slots(to, chunk, 0, 1, mebibyte, true);
    to.expect(Verb::abort);
    to.reply(to.expect(Verb::put), stored_body(1, 1));
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  const auto tokens = count_up(16);
  CHECK(client.put(*ns, {.tokens = tokens}, views_of(blocks)).ok());
}

TEST_CASE("Slots that can't be written to are refused") {
  TestChunk staging(3, 4, mebibyte, ChunkKind::staging), reading(4, 4, mebibyte);
  const auto reserve_from = [](const TestChunk& chunk, std::uint64_t bytes) {
    FakePeer peer({[&](Peer& to) {
      to.say_hello();
      register_large(to);
      give_slots(to, chunk, 0, 1, bytes, true);
      to.wait_for_close();
    }});
    Client client = connect(peer);
    const auto ns = client.register_model(large_model());
    const auto slots = client.reserve(*ns, 1);
    REQUIRE(!slots.ok());
    return slots.error().kind();
  };
  CHECK(reserve_from(reading, mebibyte) == ErrorKind::protocol);
  CHECK(reserve_from(staging, mebibyte - 1) == ErrorKind::protocol);
  CHECK(reserve_from(staging, mebibyte + 1) == ErrorKind::protocol);
}

TEST_CASE("A reservation gives back what was not committed, once") {
  TestChunk chunk(3, 4, mebibyte, ChunkKind::staging);
  std::vector<std::uint64_t> first_aborted, second_aborted, committed;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    register_large(to);
    give_slots(to, chunk, 0, 2, mebibyte, true);
    first_aborted = *to.expect(Verb::abort).body.get_u64s("slots", 9);
    give_slots(to, chunk, 0, 3, mebibyte, false);
    Message commit;
    committed = take_commit(to, commit).slots;
    second_aborted = *to.expect(Verb::abort).body.get_u64s("slots", 9);
    to.reply(commit, stored_body(1, 2));
    to.reply(to.expect(Verb::stats));
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(large_model());
  {
    const auto slots = client.reserve(*ns, 2);
    REQUIRE(slots.ok());
    CHECK(slots->size() == 2);
    CHECK(slots->slots()[1].size() == mebibyte);
  }
  auto slots = client.reserve(*ns, 3);
  REQUIRE(slots.ok());
  std::memcpy(slots->slots()[0].data(), "K", 1);
  const auto tokens = count_up(32);
  const auto stored = client.commit(*ns, std::move(*slots), {.tokens = tokens});
  REQUIRE(stored.ok());
  CHECK(stored->hashes.size() == 2);
  CHECK(client.stats().ok());
  peer.finish();
  CHECK(first_aborted == std::vector<std::uint64_t>{100, 101});
  CHECK(committed == std::vector<std::uint64_t>{100, 101});
  CHECK(second_aborted == std::vector<std::uint64_t>{102});
}

TEST_CASE("A put whose names, blocks or lengths do not fit is refused before it is sent") {
  FakePeer peer({[](Peer& to) {
    to.say_hello();
    to.register_namespace();
    to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  const auto tokens = count_up(16);
  const ByteVector block = pattern(1024, 1);
  const ByteView right[] = {block}, wrong[] = {ByteView(block).first(1023)};
  const auto refusal = [&](const NewBlocks& names, std::span<const ByteView> blocks) {
    const auto stored = client.put(*ns, names, blocks);
    REQUIRE(!stored.ok());
    return stored.error().kind();
  };
  CHECK(refusal({.tokens = std::span(tokens).first(15)}, right) == ErrorKind::invalid_argument);
  CHECK(refusal({.tokens = tokens}, wrong) == ErrorKind::invalid_argument);
  CHECK(refusal({.tokens = tokens}, {}) == ErrorKind::invalid_argument);
  const std::vector<std::string> keys{"a", "b"};
  CHECK(refusal({.keys = keys}, right) == ErrorKind::invalid_argument);
  CHECK(client.put(*ns, {}, {})->hashes.empty());
}

TEST_CASE("Without shared memory there is nothing to reserve") {
  FakePeer peer({[](Peer& to) {
    to.say_hello();
    to.register_namespace();
    to.wait_for_close();
  }});
  Client client = connect(peer, Milliseconds(10'000), false);
  const auto ns = client.register_model(small_model());
  CHECK(client.reserve(*ns, 1).error().kind() == ErrorKind::unsupported);
}

TEST_CASE("An opaque value is put with its length, through staging memory if it is large") {
  TestChunk chunk(3, 4, mebibyte, ChunkKind::staging);
  const ByteVector small = pattern(100, 1), large = pattern(500'000, 2);
  protocol::WireNewBlocks by_commit, by_put;
  bool bytes_are_there = false;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message put = to.expect(Verb::put);
    by_put = protocol::decode_put(put.body, put.payload).value().blocks;
    to.reply(put, stored_body(1, 1));
    give_slots(to, chunk, 0, 1, large.size(), true);
    Message commit;
    by_commit = take_commit(to, commit);
    bytes_are_there = std::equal(large.begin(), large.end(), chunk.slot(0).begin());
    to.reply(commit, stored_body(2, 1));
    to.wait_for_close();
  }});
  Client client = connect(peer);
  NamespaceSpec spec;
  spec.model.fingerprint = "opaque";
  const auto ns = client.register_model(spec);
  REQUIRE(ns.ok());
  CHECK(client.put_value(*ns, "small", small)->all_stored());
  CHECK(client.put_value(*ns, "large", large)->all_stored());
  CHECK(by_put.keys == std::vector<std::string>{"small"});
  CHECK(by_put.lengths == std::vector<std::uint64_t>{100});
  CHECK(by_commit.keys == std::vector<std::string>{"large"});
  CHECK(by_commit.lengths == std::vector<std::uint64_t>{500'000});
  CHECK(bytes_are_there);
}
