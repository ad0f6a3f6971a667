// Requests in flight: order, bounds, deadlines, cancelling, draining.
#include <doctest/doctest.h>

#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

void answer_exists(TestServer& server, std::size_t index, std::uint32_t blocks) {
  server.on_loop([&] {
    auto& pending = server.engine.exists_pending;
    auto done = std::move(pending[index].done);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
    done(Present{blocks, std::vector<std::uint8_t>(blocks, 1)});
  });
}

LeaseGrant a_grant(std::uint64_t id) {
  LeaseGrant grant;
  grant.lease = LeaseId{id};
  grant.expires_in_ms = 1000;
  grant.tiers = {Tier::host, Tier::disk};
  return grant;
}

void send_exists(TestClient& client, std::uint64_t id, std::uint64_t deadline_ms = 30'000) {
  HashSelection selection = hashes(1);
  selection.body.set_u64("deadline_ms", deadline_ms);
  client.send(Verb::exists, selection.body, selection.payload, id);
}

std::size_t pending(TestServer& server) {
  return server.on_loop([&] { return server.engine.exists_pending.size(); });
}

}  // namespace

TEST_CASE("Replies come in the order in which answers are ready") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  for (std::uint64_t id = 1; id <= 3; ++id) send_exists(client, id);
  server.wait_until([&] { return server.engine.exists_pending.size() == 3; });
  answer_exists(server, 2, 1);
  answer_exists(server, 0, 1);
  answer_exists(server, 0, 1);
  CHECK(client.receive()->header.request_id == 3);
  CHECK(client.receive()->header.request_id == 1);
  CHECK(client.receive()->header.request_id == 2);
}

TEST_CASE(
    "The engine gets at most 1,024 requests of a connection; the next is read when one ends") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  for (std::uint64_t id = 1; id <= 1030; ++id) send_exists(client, id);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1024; });
  // Another connection's round trip: everything that could be read was read.
  TestClient other = server.connect_authenticated();
  CHECK(other.call(Verb::stats).header.status == 0);
  CHECK(pending(server) == 1024);

  answer_exists(server, 500, 1);
  CHECK(client.receive()->header.request_id == 501);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1024; });
  for (int i = 0; i < 5; ++i) answer_exists(server, 0, 1);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1024; });
}

TEST_CASE("An engine that never answers: the deadline does, and a late answer goes nowhere") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  send_exists(client, 1, 5'000);
  send_exists(client, 2, 60'000);
  server.wait_until([&] { return server.engine.exists_pending.size() == 2; });
  server.clock.advance(Milliseconds(5'000));
  const auto late = client.receive();
  REQUIRE(late);
  CHECK(late->header.request_id == 1);
  CHECK(late->error() == ErrorKind::deadline_exceeded);
  answer_exists(server, 0, 1);
  answer_exists(server, 0, 1);
  CHECK(client.receive()->header.request_id == 2);
  CHECK(server.counters().requests_expired == 1);
}

TEST_CASE("Requests whose deadline passed still count until the engine is done with them") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  for (std::uint64_t id = 1; id <= 1025; ++id) send_exists(client, id, 1'000);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1024; });
  server.clock.advance(Milliseconds(1'001));
  for (int i = 0; i < 1024; ++i) CHECK(client.receive()->error() == ErrorKind::deadline_exceeded);
  CHECK(pending(server) == 1024);
  answer_exists(server, 0, 1);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1024; });
}

TEST_CASE("A lease granted too late is given back") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  HashSelection selection = hashes(2);
  selection.body.set_u64("deadline_ms", 1000);
  client.send(Verb::lookup, selection.body, selection.payload);
  server.wait_until([&] { return server.engine.lookup_pending.size() == 1; });
  server.clock.advance(Milliseconds(1001));
  CHECK(client.receive()->error() == ErrorKind::deadline_exceeded);
  server.on_loop([&] { server.engine.lookup_pending.front().done(a_grant(42)); });
  CHECK(server.on_loop([&] { return server.engine.released; }) == std::vector{LeaseId{42}});
}

TEST_CASE("A lease granted to a client that is gone is given back") {
  TestServer server;
  {
    TestClient client = server.connect_authenticated();
    const HashSelection selection = hashes(2);
    client.send(Verb::lookup, selection.body, selection.payload);
    server.wait_until([&] { return server.engine.lookup_pending.size() == 1; });
  }
  server.wait_until([&] { return server.engine.closed.size() == 1; });
  server.on_loop([&] { server.engine.lookup_pending.front().done(a_grant(43)); });
  CHECK(server.on_loop([&] { return server.engine.released; }) == std::vector{LeaseId{43}});
}

TEST_CASE("LOOKUP hands out its lease and keeps it") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  const HashSelection selection = hashes(2);
  client.send(Verb::lookup, selection.body, selection.payload);
  server.wait_until([&] { return server.engine.lookup_pending.size() == 1; });
  server.on_loop([&] { server.engine.lookup_pending.front().done(a_grant(44)); });
  const auto reply = client.receive();
  REQUIRE(reply);
  CHECK(reply->number("lease") == 44);
  CHECK(reply->number("blocks") == 2);
  CHECK(reply->body.get_bytes_exact("tiers", 2).value()[1] == std::byte{2});
  CHECK(server.on_loop([&] { return server.engine.released.empty(); }));
}

TEST_CASE("A cancelled request is answered so, and once") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  send_exists(client, 7);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1; });
  Body cancel;
  cancel.set_u64("request", 7);
  client.send(Verb::cancel, cancel, {}, 8);
  const auto cancelled = client.receive();
  CHECK(cancelled->header.request_id == 7);
  CHECK(cancelled->error() == ErrorKind::cancelled);
  const auto reply = client.receive();
  CHECK(reply->header.request_id == 8);
  CHECK(*reply->body.get_bool("cancelled"));
  answer_exists(server, 0, 1);
  CHECK_FALSE(*client.call(Verb::cancel, cancel).body.get_bool("cancelled"));
}

TEST_CASE("Each small verb reaches the engine and its answer the client") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  HashSelection one = hashes(1);
  one.body.set_u64("ttl_ms", 5).set_bool("pinned", true);
  CHECK(client.call(Verb::pin, one.body, one.payload).number("missing") == 2);
  CHECK(client.call(Verb::ttl, one.body, one.payload).number("changed") == 1);
  CHECK(client.call(Verb::flush).number("seq") == 9);
  CHECK(client.call(Verb::explain, one.body, one.payload).text("field") == "salt");
  Body bump;
  bump.set_text("fingerprint", "f");
  CHECK(client.call(Verb::epoch_bump, bump).number("epoch") == 4);
  Body lease;
  lease.set_u64("lease", 3);
  CHECK(client.call(Verb::renew, lease).number("expires_in_ms") == 1000);
  Body secret = lease;
  secret.set_bytes("secret", ByteVector(16));
  CHECK(client.call(Verb::lease_attach, secret).error() == ErrorKind::not_found);
  Body leases;
  leases.set_u64s("leases", std::vector<std::uint64_t>{3, 4});
  CHECK(client.call(Verb::release, leases).number("released") == 2);
  const Message inspected = client.call(Verb::inspect, one.body, one.payload);
  CHECK(inspected.body.get_u64s("tokens", 10).value() == std::vector<std::uint64_t>{1, 2, 3});
  Body verify;
  verify.set_u64("ns", 7);
  CHECK(client.call(Verb::verify, verify).number("checked") == 10);
  const Message stats = client.call(Verb::stats);
  CHECK(stats.body.get_body("counters")->get_u64("lookups", 0, 9).value() == 5);
  CHECK(stats.body.get_body("server")->get_u64("connections", 0, 9).value() == 1);
}

TEST_CASE("EVICT by blocks goes on until enough went or nothing can") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  Body evict;
  evict.set_u64("blocks", 2);
  CHECK(client.call(Verb::evict, evict).number("removed_blocks") == 2);
  evict.set_u64("blocks", 100);
  CHECK(client.call(Verb::evict, evict).number("removed_blocks") == 1);  // the fourth finds none
  evict.set_u64("bytes", 1);
  CHECK(client.call(Verb::evict, evict).error() == ErrorKind::invalid_argument);
}

TEST_CASE("LIST goes on where the last page ended") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  CHECK(client.call(Verb::list).body.get_bodies("namespaces", 10)->empty());
  Body list;
  list.set_u64("ns", 7).set_u64("limit", 100'000);
  const Message first = client.call(Verb::list, list);
  const ByteView next = *first.body.get_bytes("next", 64);
  list.set_bytes("after", next);
  const Message second = client.call(Verb::list, list);
  const auto blocks = *second.body.get_bodies("blocks", 10);
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].get_bytes_exact("hash", 32).value()[0] == std::byte{9});
  CHECK(blocks[0].get_u64("group", 0, 9).value() == 3);
  CHECK(blocks[0].get_u64("raw_bytes", 0, 99'999).value() == 1024);  // the limit was bounded
  list.set_bytes("after", ByteVector(5));
  CHECK(client.call(Verb::list, list).error() == ErrorKind::invalid_argument);
}

TEST_CASE("Draining: new work is unavailable, work in flight is finished, then all ends") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  send_exists(client, 1);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1; });
  std::atomic<bool> ended = false;
  server.on_loop([&] { server.server->drain(Milliseconds(10'000), [&] { ended = true; }); });
  const auto event = client.receive();
  REQUIRE(event);
  CHECK(event->header.kind == protocol::MessageKind::event);
  CHECK(event->text("event") == "draining");

  const HashSelection selection = hashes(1);
  CHECK(client.call(Verb::exists, selection.body, selection.payload).error() ==
        ErrorKind::unavailable);
  CHECK(client.call(Verb::stats).header.status == 0);
  server.on_loop([&] { server.engine.drained(); });
  CHECK_FALSE(ended);
  answer_exists(server, 0, 1);
  CHECK(client.receive()->header.request_id == 1);
  CHECK(client.is_closed());
  server.wait_until([&] { return ended.load(); });
}

TEST_CASE("Draining ends at its limit, whoever does not answer") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  send_exists(client, 1);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1; });
  std::atomic<bool> ended = false;
  server.on_loop([&] { server.server->drain(Milliseconds(10'000), [&] { ended = true; }); });
  CHECK(client.receive()->text("event") == "draining");
  server.clock.advance(Milliseconds(10'001));
  CHECK(client.is_closed());
  server.wait_until([&] { return ended.load(); });
}

TEST_CASE("The engine's word ends a connection") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  server.on_loop([&] { server.engine.to_disconnect = {{ConnectionId{1}, "did not unmap"}}; });
  CHECK(client.is_closed());
}
