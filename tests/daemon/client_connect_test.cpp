#include <doctest/doctest.h>

#include "daemon/client/address.h"
#include "tests/daemon/client_fake_peer.h"

using namespace kvstrata;
using namespace kvstrata::test;
using protocol::Body;
using protocol::Verb;

namespace {

ErrorKind refusal(ClientOptions options) {
  const auto connected = Client::connect(std::move(options));
  REQUIRE(!connected.ok());
  return connected.error().kind();
}

ClientOptions options_for(const FakePeer& peer) {
  return {.address = peer.address(), .connect_timeout = Milliseconds(10'000)};
}

/// How a client takes a reply to HELLO with one field changed.
ErrorKind refusal_of_hello(const std::function<void(Body&)>& change) {
  FakePeer peer({[&](Peer& to) {
    const Message hello = to.expect(Verb::hello);
    Body body;
    body.set_u64("protocol", 1).set_text("server", "s").set_text("tenant", "t");
    body.set_text("store", "00").set_bytes("boot", ByteVector(16));
    change(body);
    to.reply(hello, body);
  }});
  return refusal(options_for(peer));
}

}  // namespace

TEST_CASE("Addresses name their transport") {
  using client::parse_address;
  CHECK(parse_address("unix:/run/kvs.sock")->path == "/run/kvs.sock");
  const auto tcp = parse_address("tcp:kv.example:99");
  REQUIRE(tcp.ok());
  CHECK(tcp->host == "kv.example");
  CHECK(tcp->port == "99");
  CHECK(parse_address("tcp:10.0.0.1")->port == "7410");
  CHECK(parse_address("tcp:[::1]")->host == "::1");
  CHECK(parse_address("tcp:[::1]:88")->port == "88");
  for (const std::string_view wrong :
       {"", "/run/kvs.sock", "unix:", "tcp:", "tcp::99", "tcp:host:", "tcp:host:0",
        "tcp:host:70000", "tcp:host:9x", "tcp:[::1", "tcp:[::1]9", "udp:host:1"}) {
    CAPTURE(wrong);
    CHECK(!parse_address(wrong).ok());
  }
  CHECK(!parse_address("unix:" + std::string(200, 'x')).ok());
}

TEST_CASE("A client says who it is and learns whom it stands for") {
  std::string name, token;
  FakePeer peer({[&](Peer& to) {
    const Message hello = to.expect(Verb::hello);
    name = *hello.body.get_text("client", 99);
    token = *hello.body.get_text("token", 99);
    Body body;
    body.set_u64("protocol", 1).set_text("server", "kvstratad/9").set_text("tenant", "team-a");
    body.set_text("store", "beef").set_bytes("boot", ByteVector(16, std::byte{7}));
    to.reply(hello, body.set_bool("admin", true).set_text("a field of the future", "x"));
  }});
  ClientOptions options = options_for(peer);
  options.name = "test/1";
  options.token = "secret";
  const auto client = Client::connect(std::move(options));
  REQUIRE(client.ok());
  peer.finish();
  CHECK(name == "test/1");
  CHECK(token == "secret");
  CHECK(client->server().server == "kvstratad/9");
  CHECK(client->server().tenant == "team-a");
  CHECK(client->server().store == "beef");
  CHECK(client->server().boot[3] == std::byte{7});
  CHECK(client->server().admin);
  CHECK(client->server().shared_memory);
}

TEST_CASE("A daemon of another protocol is unsupported") {
  CHECK(refusal_of_hello([](Body& body) { body.set_u64("protocol", 2); }) ==
        ErrorKind::unsupported);
}

TEST_CASE("A reply to HELLO with a wrong field is refused") {
  CHECK(refusal_of_hello([](Body& body) { body.set_bytes("boot", ByteVector(15)); }) ==
        ErrorKind::invalid_argument);
  CHECK(refusal_of_hello([](Body& body) { body.set_u64("tenant", 1); }) ==
        ErrorKind::invalid_argument);
}

TEST_CASE("A refused token is unauthenticated, and is not tried again") {
  FakePeer peer({[](Peer& to) { to.fail(to.expect(Verb::hello), ErrorKind::unauthenticated); }});
  CHECK(refusal(options_for(peer)) == ErrorKind::unauthenticated);
}

TEST_CASE("Nobody there is unavailable once the connect timeout has passed") {
  CHECK(refusal({.address = "unix:/nonexistent/kvs.sock", .connect_timeout = Milliseconds(50)}) ==
        ErrorKind::unavailable);
}

TEST_CASE("A host that does not exist is unavailable") {
  CHECK(refusal({.address = "tcp:host.invalid:7410", .connect_timeout = Milliseconds(1)}) ==
        ErrorKind::unavailable);
}

TEST_CASE("A daemon that takes the connection and says nothing is given up") {
  FakePeer peer({[](Peer& to) {
    to.expect(Verb::hello);
    CHECK(to.wait_for_close());
  }});
  ClientOptions options = options_for(peer);
  options.connect_timeout = Milliseconds(50);
  CHECK(refusal(std::move(options)) == ErrorKind::deadline_exceeded);
}

TEST_CASE("Options out of range are refused before anything is sent") {
  CHECK(refusal({.address = "unix:/x", .request_timeout = Milliseconds(0)}) ==
        ErrorKind::invalid_argument);
  CHECK(refusal({.address = "unix:/x", .token = std::string(2000, 't')}) ==
        ErrorKind::invalid_argument);
  CHECK(refusal({.address = "pipe:/x"}) == ErrorKind::invalid_argument);
}
