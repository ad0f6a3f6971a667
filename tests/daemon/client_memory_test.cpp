// Blocks in shared memory: what a client checks before it looks, and when it lets go.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/daemon/client_fake_peer.h"

using namespace kvstrata;
using namespace kvstrata::test;
using protocol::BlockRef;
using protocol::Body;
using protocol::Verb;

namespace {

constexpr std::uint64_t slot_bytes = 8192;
const std::vector<std::uint32_t> two_blocks(32);

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

Body with_chunk(Body body, const TestChunk& chunk) {
  const protocol::ChunkAnnouncement announced[] = {chunk.announcement()};
  protocol::set_chunks(body, announced);
  return body;
}

/// Serves HELLO, REGISTER and a GET that is answered with these refs and the chunk.
void serve_get(Peer& to, const TestChunk& chunk, const std::vector<BlockRef>& refs) {
  to.say_hello();
  to.register_namespace();
  to.reply(to.expect(Verb::get), with_chunk(blocks_body(refs), chunk), {}, {chunk.fd()});
}

Result<Fetched> get_two(Client& client) {
  const auto ns = client.register_model(small_model());
  REQUIRE(ns.ok());
  return client.get(*ns, Selection::of_tokens(two_blocks));
}

/// How a client takes a GET whose ref was changed; it must have closed the connection.
ErrorKind refusal_of_ref(const std::function<void(BlockRef&)>& change) {
  TestChunk chunk(1, 4, slot_bytes);
  BlockRef ref = chunk.publish(1, pattern(1000, 1));
  change(ref);
  bool closed = false;
  FakePeer peer({[&](Peer& to) {
    serve_get(to, chunk, {ref});
    closed = to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto fetched = get_two(client);
  peer.finish();
  CHECK(closed);
  REQUIRE(!fetched.ok());
  return fetched.error().kind();
}

/// The same for a chunk that is not what was announced.
ErrorKind refusal_of_chunk(TestChunk& chunk, const protocol::ChunkAnnouncement& announced) {
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    const Message stats = to.expect(Verb::stats);
    Body body;
    protocol::set_chunks(body, std::span(&announced, 1));
    to.reply(stats, body, {}, {chunk.fd()});
    to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto stats = client.stats();
  REQUIRE(!stats.ok());
  return stats.error().kind();
}

}  // namespace

TEST_CASE("Blocks are read where they lie, with nothing copied") {
  TestChunk chunk(1, 4, slot_bytes);
  const ByteVector first = pattern(1000, 1), second = pattern(8192, 2);
  const std::vector<BlockRef> refs{chunk.publish(0, first), chunk.publish(3, second)};
  FakePeer peer({[&](Peer& to) {
    serve_get(to, chunk, refs);
    to.expect(Verb::release);
  }});
  Client client = connect(peer);
  {
    const auto fetched = get_two(client);
    REQUIRE(fetched.ok());
    CHECK(fetched->lease.id() == 77);
    CHECK(fetched->lease.alive());
    REQUIRE(fetched->blocks.size() == 2);
    CHECK(std::ranges::equal(fetched->blocks[0].bytes(), first));
    CHECK(std::ranges::equal(fetched->blocks[1].bytes(), second));
    CHECK(fetched->blocks[1].verify().ok());
    CHECK(fetched->blocks[1].valid());
    chunk.slot(3)[5] = std::byte{0xee};  // the same memory
    CHECK(fetched->blocks[1].bytes()[5] == std::byte{0xee});
    CHECK(fetched->blocks[1].verify().error().kind() == ErrorKind::corrupt);
  }
}

TEST_CASE("A slot that got another content ends its views and nothing else") {
  TestChunk chunk(1, 4, slot_bytes);
  const ByteVector bytes = pattern(1000, 1);
  const std::vector<BlockRef> refs{chunk.publish(0, bytes), chunk.publish(1, bytes, 6)};
  FakePeer peer({[&](Peer& to) { serve_get(to, chunk, refs); }});
  Client client = connect(peer);
  const auto fetched = get_two(client);
  REQUIRE(fetched.ok());
  ByteVector out(1000);
  CHECK(fetched->blocks[0].copy_out(out).ok());
  CHECK(out == bytes);
  chunk.set_generation(0, 4);
  CHECK(!fetched->blocks[0].valid());
  CHECK(fetched->blocks[0].copy_out(out).error().kind() == ErrorKind::lease_expired);
  CHECK(fetched->blocks[0].verify().error().kind() == ErrorKind::lease_expired);
  CHECK(fetched->blocks[1].valid());
  CHECK(fetched->blocks[1].copy_out(MutableBytes(out).first(999)).error().kind() ==
        ErrorKind::too_large);
}

TEST_CASE("A ref outside of a slot ends the connection") {
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.offset += 1; }) == ErrorKind::protocol);
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.offset = 0; }) == ErrorKind::protocol);
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.offset += 3 * slot_bytes; }) == ErrorKind::protocol);
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.offset = UINT64_MAX - slot_bytes + 1; }) ==
        ErrorKind::protocol);
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.bytes = slot_bytes + 1; }) == ErrorKind::protocol);
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.bytes = UINT64_MAX; }) == ErrorKind::protocol);
  CHECK(refusal_of_ref([](BlockRef& ref) { ref.chunk = 2; }) == ErrorKind::protocol);
}

TEST_CASE("A ref of a generation that was never published gives a view that is not valid") {
  TestChunk chunk(1, 4, slot_bytes);
  BlockRef ref = chunk.publish(1, pattern(1000, 1));
  ref.generation = 1;
  chunk.set_generation(1, 1);
  FakePeer peer({[&](Peer& to) { serve_get(to, chunk, {ref}); }});
  Client client = connect(peer);
  const auto fetched = get_two(client);
  REQUIRE(fetched.ok());
  CHECK(!fetched->blocks[0].valid());
}

TEST_CASE("A chunk that is not as announced ends the connection") {
  TestChunk chunk(1, 4, slot_bytes);
  auto announced = chunk.announcement();
  SUBCASE("another size") {
    announced.file_bytes += 4096;
  }
  SUBCASE("shorter than a header") {
    announced.file_bytes = 10;
  }
  SUBCASE("another id") {
    announced.chunk = 2;
  }
  SUBCASE("no magic") {
    chunk.header().magic[0] = 'X';
  }
  SUBCASE("no slots") {
    chunk.header().slots = 0;
  }
  SUBCASE("slots beyond the file") {
    chunk.header().slots = 5;
  }
  SUBCASE("slots of no whole pages") {
    chunk.header().slot_bytes = 100;
  }
  SUBCASE("data elsewhere") {
    chunk.header().data_offset = 8192;
  }
  CHECK(refusal_of_chunk(chunk, announced) == ErrorKind::protocol);
}

TEST_CASE("A chunk that could shrink under its readers is refused") {
  TestChunk chunk(1, 4, slot_bytes, protocol::ChunkKind::read, false);
  CHECK(refusal_of_chunk(chunk, chunk.announcement()) == ErrorKind::protocol);
}

TEST_CASE("Shared memory of another version is done without: the blocks come in the message") {
  TestChunk chunk(1, 4, slot_bytes);
  chunk.header().version = 2;
  const ByteVector bytes = pattern(1000, 1);
  const BlockRef ref = chunk.publish(0, bytes);
  std::vector<std::uint64_t> released;
  FakePeer peer({[&](Peer& to) {
    serve_get(to, chunk, {ref});
    released = *to.expect(Verb::release).body.get_u64s("leases", 9);
    const Message again = to.expect(Verb::get);
    KV_CHECK(*again.body.get_bool("inline"), "asked for shared memory again");
    to.reply(again, blocks_body({ref}), bytes);
  }});
  Client client = connect(peer);
  const auto fetched = get_two(client);
  REQUIRE(fetched.ok());
  CHECK(std::ranges::equal(fetched->blocks[0].bytes(), bytes));
  CHECK(fetched->blocks[0].valid());
  peer.finish();
  CHECK(released == std::vector<std::uint64_t>{77});  // of the first answer
}

TEST_CASE("A chunk asked back is unmapped when its last view is gone, and then said so") {
  TestChunk chunk(9, 4, slot_bytes);
  const BlockRef ref = chunk.publish(0, pattern(1000, 1));
  std::vector<std::uint64_t> unmapped;
  FakePeer peer({[&](Peer& to) {
    serve_get(to, chunk, {ref});
    const Message first = to.expect(Verb::stats);
    const std::uint64_t chunks[] = {9, 1234};
    to.event(Body().set_text("event", "chunks_retired").set_u64s("chunks", chunks));
    to.reply(first);
    to.reply(to.expect(Verb::stats));  // the view lives: nothing is said
    unmapped = *to.expect(Verb::chunk_unmapped).body.get_u64s("chunks", 9);
    to.expect(Verb::release);  // the views went first
    to.reply(to.expect(Verb::stats));
  }});
  Client client = connect(peer);
  {
    const auto fetched = get_two(client);
    REQUIRE(fetched.ok());
    CHECK(client.stats().ok());
    CHECK(client.stats().ok());
    CHECK(fetched->blocks[0].bytes()[0] == pattern(1, 1)[0]);
  }
  CHECK(client.stats().ok());
  peer.finish();
  CHECK(unmapped == std::vector<std::uint64_t>{9});
}

TEST_CASE("process_events says what is due without a request") {
  TestChunk chunk(9, 4, slot_bytes);
  const BlockRef ref = chunk.publish(0, pattern(1000, 1));
  FakePeer peer({[&](Peer& to) {
    serve_get(to, chunk, {ref});
    to.expect(Verb::release);
    const Message stats = to.expect(Verb::stats);
    const std::uint64_t chunks[] = {9};
    to.event(Body().set_text("event", "chunks_retired").set_u64s("chunks", chunks));
    to.reply(stats);
    to.expect(Verb::chunk_unmapped);
  }});
  Client client = connect(peer);
  CHECK(get_two(client).ok());
  CHECK(client.stats().ok());
  CHECK(client.poll_fd() >= 0);
  CHECK(client.process_events().ok());
}

TEST_CASE("Descriptors are closed once mapped, and so are those nobody announced") {
  TestChunk chunk(1, 4, slot_bytes), stray(2, 1, slot_bytes);
  const BlockRef ref = chunk.publish(0, pattern(1000, 1));
  const std::size_t before = open_files();
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message get = to.expect(Verb::get);
    const auto body = with_chunk(blocks_body({ref}), chunk);
    to.send({.verb = Verb::get,
             .kind = protocol::MessageKind::reply,
             .request_id = get.header.request_id,
             .descriptors = 1},
            body, {}, {chunk.fd(), stray.fd(), stray.fd()});
    to.wait_for_close();
  }});
  const std::size_t with_peer = open_files();
  CHECK(with_peer == before + 1);  // its listener
  {
    Client client = connect(peer);
    const auto fetched = get_two(client);
    CHECK(fetched.ok());
    CHECK(open_files() == with_peer + 3);  // both ends of the socket, and the wake-up
  }
  peer.finish();
  CHECK(open_files() == with_peer);
}

TEST_CASE("What belonged to a connection ends with it") {
  TestChunk chunk(1, 4, slot_bytes);
  const BlockRef ref = chunk.publish(0, pattern(1000, 1));
  FakePeer peer({[&](Peer& to) {
                   serve_get(to, chunk, {ref});
                   to.expect(Verb::stats);
                 },
                 [](Peer& to) {
                   to.say_hello();
                   to.reply(to.expect(Verb::stats));
                 }});
  Client client = connect(peer);
  auto fetched = get_two(client);
  REQUIRE(fetched.ok());
  CHECK(!client.stats().ok());
  CHECK(client.stats().ok());
  CHECK(!fetched->lease.alive());
  CHECK(!fetched->blocks[0].valid());
  CHECK(fetched->lease.renew(Milliseconds(1000)).error().kind() == ErrorKind::lease_expired);
  const auto loaded = client.load(fetched->lease, 0, 1);
  REQUIRE(!loaded.ok());
  CHECK(loaded.error().kind() == ErrorKind::lease_expired);
  ByteVector out(1000);
  CHECK(fetched->blocks[0].copy_out(out).error().kind() == ErrorKind::lease_expired);
}

TEST_CASE("Views and leases may outlive their client") {
  TestChunk chunk(1, 4, slot_bytes);
  const BlockRef ref = chunk.publish(0, pattern(1000, 1));
  FakePeer peer({[&](Peer& to) {
    serve_get(to, chunk, {ref});
    to.wait_for_close();
  }});
  auto client = std::make_unique<Client>(connect(peer));
  const auto fetched = get_two(*client);
  REQUIRE(fetched.ok());
  client.reset();
  CHECK(!fetched->lease.alive());
  CHECK(!fetched->blocks[0].valid());
  CHECK(fetched->blocks[0].bytes().size() == 1000);
}

TEST_CASE("A lease is renewed, attached and moved") {
  std::uint64_t asked_ms = 0;
  Body attach;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    to.reply(to.expect(Verb::lookup), lease_body(2));
    const Message renew = to.expect(Verb::renew);
    asked_ms = *renew.body.get_u64("lease_ms", 1, 600'000);
    to.reply(renew, Body().set_u64("expires_in_ms", asked_ms));
    const Message attached = to.expect(Verb::lease_attach);
    attach = attached.body;
    to.reply(attached, lease_body(2));
    to.expect(Verb::release);
    to.expect(Verb::release);
    to.wait_for_close();
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  auto lease = client.lookup(*ns, Selection::of_tokens(two_blocks));
  REQUIRE(lease.ok());
  CHECK(lease->blocks() == 2);
  CHECK(lease->tiers()[1] == protocol::Tier::host);
  CHECK(lease->renew(Milliseconds(5000)).ok());
  const auto other = client.attach(lease->id(), lease->secret());
  REQUIRE(other.ok());
  CHECK(other->blocks() == 2);
  Lease moved = std::move(*lease);
  CHECK(moved.alive());
  moved = Lease();  // released here, once
  CHECK(!moved.alive());
  CHECK(asked_ms == 5000);
  CHECK(*attach.get_u64("lease", 1, 99) == 77);
  CHECK(std::ranges::equal(*attach.get_bytes_exact("secret", 16), pattern(16, 1)));
}

TEST_CASE("A load beyond its lease is refused before it is sent") {
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    to.reply(to.expect(Verb::lookup), lease_body(2));
    to.expect(Verb::release);
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  const auto lease = client.lookup(*ns, Selection::of_tokens(two_blocks));
  REQUIRE(lease.ok());
  CHECK(client.load(*lease, 1, 2).error().kind() == ErrorKind::invalid_argument);
  CHECK(client.load(*lease, UINT32_MAX, 2).error().kind() == ErrorKind::invalid_argument);
  CHECK(client.load(Lease(), 0, 1).error().kind() == ErrorKind::invalid_argument);
  CHECK(client.load(*lease, 0, 0)->empty());
}

TEST_CASE("A load names the tokens it expects, and blocks fail one by one") {
  TestChunk chunk(1, 4, slot_bytes);
  const BlockRef ref = chunk.publish(0, pattern(1000, 1));
  std::vector<std::uint32_t> tokens(32);
  for (std::uint32_t i = 0; i < 32; ++i) tokens[i] = i;
  ByteVector expected;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    to.reply(to.expect(Verb::lookup), lease_body(2));
    const Message load = to.expect(Verb::load);
    expected = load.payload;
    Body body = with_chunk(blocks_body({ref, {}}), chunk);
    const std::byte status[] = {std::byte{0}, std::byte{10}};
    to.reply(load, body.set_bytes("status", status), {}, {chunk.fd()});
    to.expect(Verb::release);
  }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  const auto lease = client.lookup(*ns, Selection::of_tokens(tokens));
  REQUIRE(lease.ok());
  const auto blocks = client.load(*lease, 0, 2, tokens);
  REQUIRE(blocks.ok());
  CHECK((*blocks)[0].valid());
  CHECK(!(*blocks)[1]);
  CHECK((*blocks)[1].status().error().kind() == ErrorKind::corrupt);
  CHECK(!(*blocks)[1].valid());
  CHECK(std::ranges::equal(expected, bytes_of(std::span<const std::uint32_t>(tokens))));
}
