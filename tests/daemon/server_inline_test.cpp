// Blocks inside messages: payload memory on the way in, leases and slow readers on the way out.
#include <doctest/doctest.h>

#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

/// Two blocks of the engine's memory, filled differently, under a lease. Made before the server,
/// which may read them until it is gone.
struct Blocks {
  explicit Blocks(std::size_t bytes, std::uint64_t lease = 11)
      : first(bytes, std::byte{0xaa}), second(bytes, std::byte{0xbb}) {
    loaded.grant.lease = LeaseId{lease};
    loaded.grant.expires_in_ms = 1000;
    loaded.grant.tiers = {Tier::host, Tier::none, Tier::disk};
    loaded.blocks.resize(3);
    for (const auto& [index, block] : {std::pair{0, &first}, std::pair{2, &second}}) {
      loaded.blocks[index].data = block->data();
      loaded.blocks[index].ref = {1, 64, block->size(), 2, 99};
    }
    loaded.blocks[1].status = static_cast<std::uint8_t>(ErrorKind::not_found);
  }
  ByteVector first, second;
  Loaded loaded;
};

Body inline_selection(HashSelection& selection) {
  selection = hashes(3);
  selection.body.set_bool("inline", true);
  return selection.body;
}

Body load_body(std::uint64_t lease, bool is_inline) {
  Body body;
  body.set_u64("lease", lease)
      .set_u64("first", 0)
      .set_u64("count", 3)
      .set_bool("inline", is_inline);
  return body;
}

HashSelection one_put(std::size_t value_bytes) {
  HashSelection put;
  put.body.set_u64("ns", 7).set_text("by", "key").set_u64("count", 1);
  put.body.set_u64s("lengths", std::vector<std::uint64_t>{value_bytes});
  put.body.set_u64("deadline_ms", 600'000);
  put.payload = {std::byte{1}, std::byte{0}, std::byte{'k'}};
  put.payload.resize(3 + value_bytes, std::byte{0x5c});
  return put;
}

std::uint64_t inline_bytes(TestServer& server) {
  return server.on_loop([&] { return server.server->context().inline_memory->used_bytes(); });
}

}  // namespace

TEST_CASE("GET inline brings the good blocks in order, and its lease ends when they are sent") {
  Blocks blocks(100'000);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated();
  HashSelection selection;
  const Body body = inline_selection(selection);
  const Message reply = client.call(Verb::get, body, selection.payload);
  REQUIRE(reply.header.status == 0);
  CHECK(reply.header.descriptors == 0);
  CHECK(reply.number("lease") == 0);
  const ByteView status = *reply.body.get_bytes("status", 10);
  CHECK(status[1] == static_cast<std::byte>(ErrorKind::not_found));
  CHECK(reply.body.get_bytes("refs", 1000)->size() == 120);
  REQUIRE(reply.payload.size() == 200'000);
  CHECK(std::equal(blocks.first.begin(), blocks.first.end(), reply.payload.begin()));
  CHECK(std::equal(blocks.second.begin(), blocks.second.end(), reply.payload.begin() + 100'000));
  CHECK(server.on_loop([&] { return server.engine.released; }) == std::vector{LeaseId{11}});
}

TEST_CASE("GET inline keeps its lease for a client that asked for one") {
  const Blocks blocks(1000);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated();
  HashSelection selection;
  Body body = inline_selection(selection);
  body.set_u64("lease_ms", 5000);
  const Message reply = client.call(Verb::get, body, selection.payload);
  CHECK(reply.number("lease") == 11);
  CHECK(server.on_loop([&] { return server.engine.released.empty(); }));
}

TEST_CASE("LOAD inline leaves the client's lease alone") {
  const Blocks blocks(1000);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated();
  CHECK(client.call(Verb::load, load_body(11, true)).payload.size() == 2000);
  CHECK(server.on_loop([&] { return server.engine.released.empty(); }));
}

TEST_CASE("A lease released while its blocks are being sent ends after the last byte") {
  const Blocks blocks(16 << 20);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated(64 << 10);
  client.send(Verb::load, load_body(11, true), {}, 100);
  // The socket is full: the lease was given more time.
  server.wait_until([&] { return server.engine.renewed.contains(LeaseId{11}); });
  Body release;
  release.set_u64s("leases", std::vector<std::uint64_t>{11, 11});
  client.send(Verb::release, release, {}, 101);
  server.wait_until([&] { return server.server->context().counters.replies_ok == 3; });
  CHECK(server.on_loop([&] { return server.engine.released.empty(); }));

  CHECK(client.receive()->payload.size() == std::size_t{32} << 20);
  const auto released = client.receive();
  CHECK(released->number("released") == 1);
  CHECK(released->number("not_held") == 1);
  CHECK(server.on_loop([&] { return server.engine.released; }) == std::vector{LeaseId{11}});
}

TEST_CASE("If the lease can't be kept while sending, the connection ends: never wrong bytes") {
  const Blocks blocks(16 << 20);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  server.engine.leases_have_ended = true;
  TestClient client = server.connect_authenticated(64 << 10);
  client.send(Verb::load, load_body(11, true));
  server.wait_until([&] { return server.engine.closed.size() == 1; });
}

TEST_CASE("A client that never reads is disconnected, and what it held is free") {
  const Blocks blocks(16 << 20);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated(64 << 10);
  HashSelection selection;
  const Body body = inline_selection(selection);
  client.send(Verb::get, body, selection.payload);
  server.wait_until([&] { return server.engine.renewed.contains(LeaseId{11}); });
  server.clock.advance(Milliseconds(29'000));
  server.on_loop([] {});
  CHECK(server.on_loop([&] { return server.engine.closed.empty(); }));
  server.clock.advance(Milliseconds(2'000));
  server.wait_until([&] { return server.engine.closed.size() == 1; });
  CHECK(server.counters().stalled_readers == 1);
}

TEST_CASE("Requests of a client that does not read its replies are not read either") {
  const Blocks blocks(40 << 20);
  TestServer server;
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated(64 << 10);
  HashSelection selection;
  const Body body = inline_selection(selection);
  for (std::uint64_t id = 1; id <= 5; ++id) client.send(Verb::get, body, selection.payload, id);
  server.wait_until([&] { return server.engine.renewed.contains(LeaseId{11}); });
  TestClient other = server.connect_authenticated();
  CHECK(other.call(Verb::flush).header.status == 0);
  // HELLO twice, FLUSH, and the one GET whose 80 MiB are over the bound of the queue.
  CHECK(server.counters().replies_ok == 4);
  for (std::uint64_t id = 1; id <= 5; ++id) CHECK(client.receive()->header.request_id == id);
}

TEST_CASE("PUT brings its values to the engine in memory that is given back after the answer") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  const HashSelection put = one_put(3'000'000);
  client.send(Verb::put, put.body, put.payload);
  server.wait_until([&] { return server.engine.put_pending.size() == 1; });
  CHECK(*server.engine.put_values.front() == put.payload);
  CHECK(inline_bytes(server) == put.payload.size());
  server.on_loop([&] {
    server.engine.put_values.clear();
    server.engine.put_pending.front().done(Committed{Sequence{3}, {0}, {Hash256{}}});
    server.engine.put_pending.clear();
  });
  CHECK(client.receive()->number("seq") == 3);
  CHECK(inline_bytes(server) == 0);
}

TEST_CASE("Payload memory is bounded over all connections: the next PUT waits its turn") {
  ServerOptions options;
  options.inline_bytes_max = 4 << 20;
  TestServer server(std::move(options));
  TestClient first = server.connect_authenticated();
  TestClient second = server.connect_authenticated();
  const HashSelection put = one_put(3 << 20);
  first.send(Verb::put, put.body, put.payload);
  server.wait_until([&] { return server.engine.put_pending.size() == 1; });
  std::thread sender([&] { second.send(Verb::put, put.body, put.payload); });
  server.wait_until([&] { return server.server->context().inline_memory->waiting() == 1; });
  CHECK(inline_bytes(server) == put.payload.size());
  server.on_loop([&] {
    server.engine.put_values.clear();
    server.engine.put_pending.front().done(Committed{});
    server.engine.put_pending.clear();
  });
  server.wait_until([&] { return server.engine.put_pending.size() == 1; });
  sender.join();
  CHECK(first.receive()->header.status == 0);
}

TEST_CASE("A payload larger than the whole bound is let in alone") {
  ServerOptions options;
  options.inline_bytes_max = 1 << 20;
  TestServer server(std::move(options));
  TestClient client = server.connect_authenticated();
  const HashSelection put = one_put(5 << 20);
  client.send(Verb::put, put.body, put.payload);
  server.wait_until([&] { return server.engine.put_pending.size() == 1; });
}

TEST_CASE("A PUT half sent holds nothing once its client is dead") {
  TestServer server;
  {
    TestClient client = server.connect_authenticated();
    const HashSelection put = one_put(8 << 20);
    Header header;
    header.verb = Verb::put;
    header.request_id = 1;
    const ByteVector bytes = message_bytes(header, put.body, put.payload);
    client.send_bytes(ByteView(bytes).first(bytes.size() / 2));
    server.wait_until(
        [&] { return server.server->context().inline_memory->used_bytes() == put.payload.size(); });
  }
  server.wait_until([&] { return server.engine.closed.size() == 1; });
  CHECK(inline_bytes(server) == 0);
  CHECK(server.on_loop([&] { return server.engine.put_pending.empty(); }));
}

TEST_CASE("A PUT that stops half way ends its connection; one that waits its turn does not") {
  ServerOptions options;
  options.inline_bytes_max = 1 << 20;
  TestServer server(std::move(options));
  TestClient stops = server.connect_authenticated();
  TestClient waits = server.connect_authenticated();
  const HashSelection put = one_put(1 << 20);
  Header header;
  header.verb = Verb::put;
  header.request_id = 1;
  const ByteVector bytes = message_bytes(header, put.body, put.payload);
  stops.send_bytes(ByteView(bytes).first(1000));
  server.wait_until(
      [&] { return server.server->context().inline_memory->used_bytes() == put.payload.size(); });
  waits.send_bytes(ByteView(bytes).first(1000));
  server.wait_until([&] { return server.server->context().inline_memory->waiting() == 1; });
  server.clock.advance(Milliseconds(30'001));
  CHECK(stops.is_closed());
  CHECK(server.counters().stalled_writers == 1);
  waits.send_bytes(ByteView(bytes).subspan(1000));
  server.wait_until([&] { return server.engine.put_pending.size() == 1; });
}

TEST_CASE("A PUT whose deadline passes while it arrives is answered, then read to its end") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  HashSelection put = one_put(1 << 20);
  put.body.set_u64("deadline_ms", 1000);
  Header header;
  header.verb = Verb::put;
  header.request_id = 1;
  const ByteVector bytes = message_bytes(header, put.body, put.payload);
  client.send_bytes(ByteView(bytes).first(1000));
  server.wait_until(
      [&] { return server.server->context().inline_memory->used_bytes() == put.payload.size(); });
  server.clock.advance(Milliseconds(1001));
  CHECK(client.receive()->error() == ErrorKind::deadline_exceeded);
  client.send_bytes(ByteView(bytes).subspan(1000));
  CHECK(client.call(Verb::stats).header.status == 0);
  CHECK(server.on_loop([&] { return server.engine.put_pending.empty(); }));
  CHECK(inline_bytes(server) == 0);
}

TEST_CASE("An idle client between messages is left alone") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  server.clock.advance(Milliseconds(24 * 3600 * 1000));
  server.on_loop([] {});
  CHECK(client.call(Verb::stats).header.status == 0);
}

TEST_CASE("A reply that would exceed its limit is an error, and its lease is given back") {
  Blocks blocks(1000);
  TestServer server;
  blocks.loaded.blocks[0].ref.bytes = protocol::payload_bytes_max;  // never read: it is refused
  server.engine.loaded = blocks.loaded;
  TestClient client = server.connect_authenticated();
  HashSelection selection;
  const Body body = inline_selection(selection);
  CHECK(client.call(Verb::get, body, selection.payload).error() == ErrorKind::too_large);
  CHECK(server.on_loop([&] { return server.engine.released; }) == std::vector{LeaseId{11}});
}
