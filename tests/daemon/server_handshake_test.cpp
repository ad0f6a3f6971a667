// Who may talk to the daemon, as whom, and with what rights.
#include <doctest/doctest.h>
#include <unistd.h>

#include "daemon/server/sockets.h"
#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

constexpr std::string_view token_a = "token-of-team-a-0001";
constexpr std::string_view token_b = "token-of-team-b-0002";

std::vector<TenantConfig> two_tenants() {
  return {{"team-b", sha256(as_bytes(token_b)), {}, false},
          {"team-a", sha256(as_bytes(token_a)), {4711}, true}};
}

ServerOptions with_tenants() {
  ServerOptions options;
  options.tenants = two_tenants();
  return options;
}

Peer unix_peer(std::uint32_t uid) {
  return {true, uid, false, "test"};
}
Peer tcp_peer(bool loopback) {
  return {false, 0, loopback, "test"};
}

}  // namespace

TEST_CASE("A token decides the tenant, in any order of the file") {
  const TenantTable table(two_tenants(), 1000);
  const auto a = table.authenticate(token_a, tcp_peer(false));
  const auto b = table.authenticate(token_b, unix_peer(1));
  CHECK(a->name == "team-a");
  CHECK(a->admin);
  CHECK(b->name == "team-b");
  CHECK_FALSE(b->admin);
  CHECK(a->id != b->id);
  auto reversed = two_tenants();
  std::swap(reversed[0], reversed[1]);
  CHECK(TenantTable(reversed, 1000).authenticate(token_a, tcp_peer(false))->id == a->id);
}

TEST_CASE("A wrong token is refused, also from a peer that needs none") {
  const TenantTable table(two_tenants(), 1000);
  for (const Peer& peer : {unix_peer(1000), unix_peer(0), tcp_peer(true)}) {
    CHECK(table.authenticate("token-of-team-a-000", peer).error().kind() ==
          ErrorKind::unauthenticated);
    CHECK(table.authenticate("", peer).error().kind() == ErrorKind::unauthenticated);
  }
}

TEST_CASE("On a Unix socket the user id is enough: listed ones, the daemon's own and root") {
  const TenantTable table(two_tenants(), 1000);
  CHECK(table.authenticate({}, unix_peer(4711))->name == "team-a");
  CHECK(table.authenticate({}, unix_peer(1000))->name == "default");
  CHECK(table.authenticate({}, unix_peer(1000))->admin);
  CHECK(table.authenticate({}, unix_peer(0))->name == "default");
  CHECK(table.authenticate({}, unix_peer(1001)).error().kind() == ErrorKind::unauthenticated);
}

TEST_CASE("TCP without a token is for loopback, and only while nobody has one") {
  CHECK(TenantTable({}, 1000).authenticate({}, tcp_peer(true))->name == "default");
  CHECK_FALSE(TenantTable({}, 1000).authenticate({}, tcp_peer(true))->admin);
  CHECK_FALSE(TenantTable({}, 1000).authenticate({}, tcp_peer(false)).ok());
  CHECK_FALSE(TenantTable(two_tenants(), 1000).authenticate({}, tcp_peer(true)).ok());
}

TEST_CASE("HELLO tells what a client needs to know") {
  TestServer server;
  TestClient client = server.connect();
  const Message reply = client.hello();
  CHECK(reply.header.status == 0);
  CHECK(reply.number("protocol") == 1);
  CHECK(reply.text("server") == "kvstratad/test");
  CHECK(reply.text("tenant") == "default");
  CHECK(*reply.body.get_bool("admin"));
  CHECK(reply.text("store") == "0123");
  CHECK(reply.body.get_bytes_exact("boot", 16).ok());
  CHECK(reply.body.get_body("limits")->get_u64("in_flight", 0, 9999).value() == 1024);
}

TEST_CASE("Anything but HELLO first is answered and ends the connection") {
  TestServer server;
  TestClient client = server.connect();
  const HashSelection selection = hashes(1);
  client.send(Verb::exists, selection.body, selection.payload);
  CHECK(client.receive()->error() == ErrorKind::unauthenticated);
  CHECK(client.is_closed());
  client.close();
  server.wait_until([&] { return server.server->context().connections == 0; });
  CHECK(server.on_loop([&] { return server.engine.closed.size(); }) == 0);
}

TEST_CASE("After its last reply a connection lingers for a second, not longer") {
  TestServer server;
  TestClient client = server.connect();
  client.send(Verb::stats);
  CHECK(client.receive()->error() == ErrorKind::unauthenticated);
  CHECK(client.is_closed());  // its sending side
  CHECK(server.on_loop([&] { return server.server->context().connections; }) == 1);
  server.clock.advance(Milliseconds(1001));
  server.wait_until([&] { return server.server->context().connections == 0; });
}

TEST_CASE("A HELLO that is too large ends the connection before it is read") {
  TestServer server;
  TestClient client = server.connect();
  Header header;
  header.request_id = 1;
  header.body_bytes = 20'000;
  const protocol::HeaderBytes bytes = protocol::serialize(header);
  client.send_bytes(bytes);
  CHECK(client.receive()->error() == ErrorKind::too_large);
  CHECK(client.is_closed());
}

TEST_CASE("A wrong token ends the connection and is counted; a right one names the tenant") {
  TestServer server(with_tenants());
  TestClient wrong = server.connect();
  CHECK(wrong.hello("wrong-token-0000000").error() == ErrorKind::unauthenticated);
  CHECK(wrong.is_closed());
  CHECK(server.counters().authentication_failures == 1);
  TestClient right = server.connect();
  const Message reply = right.hello(std::string(token_b));
  CHECK(reply.text("tenant") == "team-b");
  CHECK_FALSE(*reply.body.get_bool("admin"));
}

TEST_CASE("Another protocol is refused by number") {
  TestServer server;
  TestClient client = server.connect();
  Body body;
  body.set_u64("protocol", 2);
  const Message reply = client.call(Verb::hello, body);
  CHECK(reply.error() == ErrorKind::unsupported);
  CHECK(client.is_closed());
}

TEST_CASE("A second HELLO changes nothing") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  CHECK(client.hello().error() == ErrorKind::invalid_argument);
  CHECK(client.call(Verb::stats).header.status == 0);
}

TEST_CASE("Without HELLO in time the connection ends") {
  TestServer server;
  TestClient silent = server.connect();
  TestClient busy = server.connect_authenticated();
  server.clock.advance(Milliseconds(30'001));
  CHECK(silent.is_closed());
  CHECK(busy.call(Verb::stats).header.status == 0);
  CHECK(server.counters().handshake_timeouts == 1);
}

TEST_CASE("What concerns the whole machine or tenant needs admin rights") {
  TestServer server(with_tenants());
  TestClient user = server.connect();
  REQUIRE(user.hello(std::string(token_b)).header.status == 0);
  Body evict, verify, clear;
  evict.set_u64("bytes", 1);
  verify.set_u64("ns", 7);
  clear.set_text("scope", "tenant");
  CHECK(user.call(Verb::evict, evict).error() == ErrorKind::permission_denied);
  CHECK(user.call(Verb::verify, verify).error() == ErrorKind::permission_denied);
  CHECK(user.call(Verb::clear, clear).error() == ErrorKind::permission_denied);
  clear.set_text("scope", "namespace").set_u64("ns", 7);
  CHECK(user.call(Verb::clear, clear).header.status == 0);

  TestClient admin = server.connect();
  REQUIRE(admin.hello(std::string(token_a)).header.status == 0);
  clear.set_text("scope", "tenant");
  CHECK(admin.call(Verb::evict, evict).header.status == 0);
  CHECK(admin.call(Verb::verify, verify).header.status == 0);
  CHECK(admin.call(Verb::clear, clear).header.status == 0);
}

TEST_CASE("Connections beyond the limit are told so, and served again when others left") {
  ServerOptions options;
  options.connections_max = 2;
  TestServer server(std::move(options));
  TestClient first = server.connect_authenticated();
  TestClient second = server.connect_authenticated();
  TestClient third = server.connect();
  const Message reply = third.hello();
  CHECK(reply.error() == ErrorKind::busy);
  CHECK(third.is_closed());
  CHECK(server.counters().connections_refused == 1);

  first.close();
  server.wait_until([&] { return server.server->context().connections == 1; });
  CHECK(server.connect().hello().header.status == 0);
}

TEST_CASE("A flood beyond the limit can't take more than a few descriptors") {
  ServerOptions options;
  options.connections_max = 1;
  TestServer server(std::move(options));
  TestClient only = server.connect_authenticated();
  std::vector<TestClient> flood;
  for (int i = 0; i < 100; ++i) flood.push_back(server.connect());
  // 16 wait for their HELLO to be answered; the others are told at once.
  const auto reply = flood.back().receive();
  REQUIRE(reply);
  CHECK(reply->error() == ErrorKind::busy);
  CHECK(reply->header.request_id == 0);
  server.clock.advance(Milliseconds(2'001));
  for (TestClient& client : flood) {
    while (client.receive()) {
    }
  }
  CHECK(only.call(Verb::stats).header.status == 0);
}
