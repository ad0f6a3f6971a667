// What a client does about a peer that breaks the protocol, goes away, is late, or sends events.
#include <doctest/doctest.h>

#include "daemon/protocol/header.h"
#include "tests/daemon/client_fake_peer.h"

using namespace kvstrata;
using namespace kvstrata::test;
using protocol::Body;
using protocol::Header;
using protocol::MessageKind;
using protocol::Verb;

namespace {

const auto serve_stats = [](Peer& to) { to.reply(to.expect(Verb::stats)); };

/// What STATS ends with when the peer answers it so; the client must have closed after.
ErrorKind broken_by(const std::function<void(Peer&, const Message&)>& answer) {
  bool closed = false;
  FakePeer peer({[&](Peer& to) {
                   to.say_hello();
                   answer(to, to.expect(Verb::stats));
                   closed = to.wait_for_close();
                 },
                 [](Peer& to) {
                   to.say_hello();
                   serve_stats(to);
                 }});
  Client client = connect(peer);
  const auto stats = client.stats();
  CHECK(client.stats().ok());  // on a new connection
  peer.finish();
  CHECK(closed);
  REQUIRE(!stats.ok());
  return stats.error().kind();
}

Header reply_header(const Message& to) {
  return {.verb = to.header.verb, .kind = MessageKind::reply, .request_id = to.header.request_id};
}

}  // namespace

TEST_CASE("A frame over a limit ends the connection before memory is taken") {
  CHECK(broken_by([](Peer& to, const Message& request) {
          Header header = reply_header(request);
          header.body_bytes = protocol::body_bytes_max + 1;
          to.send_bytes(protocol::serialize(header));
        }) == ErrorKind::too_large);
  CHECK(broken_by([](Peer& to, const Message& request) {
          Header header = reply_header(request);
          header.payload_bytes = protocol::payload_bytes_max + 1;
          to.send_bytes(protocol::serialize(header));
        }) == ErrorKind::too_large);
}

TEST_CASE("A payload nobody asked for ends the connection") {
  CHECK(broken_by([](Peer& to, const Message& request) {
          to.reply(request, {}, pattern(10, 1));
        }) == ErrorKind::protocol);
}

TEST_CASE("An event with a payload too large for its hashes ends the connection") {
  CHECK(broken_by([](Peer& to, const Message&) {
          to.send_bytes(protocol::serialize(
              {.verb = Verb::event, .kind = MessageKind::event, .payload_bytes = 32 * 16384 + 1}));
        }) == ErrorKind::protocol);
}

TEST_CASE("A reply to a request that was not made ends the connection") {
  CHECK(broken_by([](Peer& to, const Message& request) {
          Header header = reply_header(request);
          header.request_id += 100;
          to.send(header, {}, {}, {});
        }) == ErrorKind::protocol);
}

TEST_CASE("A request from the daemon ends the connection") {
  CHECK(broken_by([](Peer& to, const Message& request) {
          Header header = reply_header(request);
          header.kind = MessageKind::request;
          to.send(header, {}, {}, {});
        }) == ErrorKind::protocol);
}

TEST_CASE("Bytes that are no header, or no body, end the connection") {
  CHECK(broken_by([](Peer& to, const Message&) { to.send_bytes(pattern(64, 3)); }) ==
        ErrorKind::protocol);
  CHECK(broken_by([](Peer& to, const Message& request) {
          Header header = reply_header(request);
          header.body_bytes = 3;
          ByteVector bytes(35, std::byte{0xc1});
          const auto head = protocol::serialize(header);
          std::copy(head.begin(), head.end(), bytes.begin());
          to.send_bytes(bytes);
        }) == ErrorKind::protocol);
}

TEST_CASE("Descriptors that are announced must come") {
  CHECK(broken_by([](Peer& to, const Message& request) {
          Header header = reply_header(request);
          header.descriptors = 1;
          to.send(header, {}, {}, {});
        }) == ErrorKind::protocol);
}

TEST_CASE("A connection that breaks during a request makes it unavailable") {
  CHECK(broken_by([](Peer& to, const Message&) { to.close(); }) == ErrorKind::unavailable);
}

TEST_CASE("The daemon's reason for closing is the error") {
  FakePeer peer({[](Peer& to) {
    to.say_hello();
    Message request = to.expect(Verb::stats);
    request.header.request_id = 0;  // as read, if the header was garbled on its way
    to.fail(request, ErrorKind::protocol);
  }});
  Client client = connect(peer);
  const auto stats = client.stats();
  REQUIRE(!stats.ok());
  CHECK(stats.error().message() == "as scripted");
}

TEST_CASE("An error reply leaves the connection as it is") {
  FakePeer peer({[](Peer& to) {
    to.say_hello();
    to.fail(to.expect(Verb::stats), ErrorKind::busy);
    serve_stats(to);
  }});
  Client client = connect(peer);
  CHECK(client.stats().error().kind() == ErrorKind::busy);
  CHECK(client.stats().ok());
}

TEST_CASE("Unknown events are ignored") {
  FakePeer peer({[](Peer& to) {
    to.say_hello();
    const Message request = to.expect(Verb::stats);
    to.event(Body().set_text("event", "sunrise").set_u64("hour", 6));
    to.reply(request);
  }});
  Client client = connect(peer);
  CHECK(client.stats().ok());
}

TEST_CASE("After a restart the namespace is registered again before it is used") {
  Body second_model;
  FakePeer peer({[](Peer& to) {
                   to.say_hello();
                   to.register_namespace();
                 },
                 [](Peer& to) {
                   to.say_hello();
                   to.register_namespace();
                   to.reply(to.expect(Verb::lookup), lease_body(0, 0));
                 }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  REQUIRE(ns.ok());
  CHECK(ns->block_bytes() == small_block_bytes);
  CHECK(ns->spec().tenant == "default");
  const std::vector<std::uint32_t> tokens(16);
  // The peer closes right after REGISTER; the look-up may still meet the old connection.
  auto lease = client.lookup(*ns, Selection::of_tokens(tokens));
  if (!lease) lease = client.lookup(*ns, Selection::of_tokens(tokens));
  REQUIRE(lease.ok());
  CHECK(lease->blocks() == 0);
}

TEST_CASE("Weights that changed while the daemon was away are noticed") {
  FakePeer peer({[](Peer& to) {
                   to.say_hello();
                   to.register_namespace(1);
                   to.expect(Verb::stats);
                 },
                 [](Peer& to) {
                   to.say_hello();
                   to.register_namespace(2);
                 }});
  Client client = connect(peer);
  const auto ns = client.register_model(small_model());
  REQUIRE(ns.ok());
  CHECK(client.stats().error().kind() == ErrorKind::unavailable);
  const Hash256 hash;
  const auto lease = client.lookup(*ns, Selection::of_hashes(std::span(&hash, 1)));
  REQUIRE(!lease.ok());
  CHECK(lease.error().kind() == ErrorKind::epoch_changed);
  CHECK(ns->weight_epoch() == 1);
}

TEST_CASE("A daemon that is gone makes requests unavailable at once") {
  auto peer =
      std::make_unique<FakePeer>(std::vector<FakePeer::Script>{[](Peer& to) { to.say_hello(); }});
  Client client = connect(*peer);
  peer.reset();
  CHECK(client.stats().error().kind() == ErrorKind::unavailable);
}

TEST_CASE("A reply after the deadline is dropped, and the lease it grants is given back") {
  std::vector<std::uint64_t> released;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    to.register_namespace();
    const Message late = to.expect(Verb::lookup);
    const Message next = to.expect(Verb::stats);  // the client gave the look-up up
    to.reply(late, lease_body(2, 42));
    to.reply(next);
    released = *to.expect(Verb::release).body.get_u64s("leases", 9);
    serve_stats(to);
  }});
  Client client = connect(peer, Milliseconds(700));
  const auto ns = client.register_model(small_model());
  REQUIRE(ns.ok());
  const std::vector<std::uint32_t> tokens(32);
  const auto lease = client.lookup(*ns, Selection::of_tokens(tokens));
  REQUIRE(!lease.ok());
  CHECK(lease.error().kind() == ErrorKind::deadline_exceeded);
  CHECK(client.stats().ok());
  CHECK(client.stats().ok());
  peer.finish();
  CHECK(released == std::vector<std::uint64_t>{42});
}

TEST_CASE("A request tells the daemon a deadline a little before the client's own") {
  std::uint64_t deadline_ms = 0;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    const Message request = to.expect(Verb::stats);
    deadline_ms = *request.body.get_u64("deadline_ms", 1, 600'000);
    to.reply(request);
  }});
  Client client = connect(peer, Milliseconds(10'000));
  CHECK(client.stats().ok());
  peer.finish();
  CHECK(deadline_ms <= 9'000);
}

TEST_CASE("Another thread can cancel the request in progress") {
  Client* cancelled_client = nullptr;
  std::uint64_t asked_for = 0, cancelled = 0;
  FakePeer peer({[&](Peer& to) {
    to.say_hello();
    const Message request = to.expect(Verb::flush);
    asked_for = request.header.request_id;
    cancelled_client->cancel();
    const Message cancel = to.expect(Verb::cancel);
    cancelled = *cancel.body.get_u64("request", 1, UINT64_MAX);
    to.fail(request, ErrorKind::cancelled);
    to.reply(cancel, Body().set_bool("cancelled", true));
    serve_stats(to);
  }});
  Client client = connect(peer);
  cancelled_client = &client;
  const auto flushed = client.flush();
  REQUIRE(!flushed.ok());
  CHECK(flushed.error().kind() == ErrorKind::cancelled);
  CHECK(client.stats().ok());  // a later request is not cancelled
  peer.finish();
  CHECK(cancelled == asked_for);
}

TEST_CASE("A cancel while nothing is in progress cancels nothing") {
  FakePeer peer({[](Peer& to) {
    to.say_hello();
    serve_stats(to);
  }});
  Client client = connect(peer);
  client.cancel();
  CHECK(client.stats().ok());
}

TEST_CASE("A watching client is told events, also after it connected again") {
  std::vector<std::string> seen;
  std::vector<Hash256> hashes;
  const ByteVector hash = pattern(32, 5);
  const auto stored = Body().set_text("event", "stored").set_u64("ns", 5).set_u64("tier", 1);
  FakePeer peer({[&](Peer& to) {
                   to.say_hello();
                   const Message watch = to.expect(Verb::watch);
                   to.event(stored, hash);
                   to.reply(watch);
                   to.expect(Verb::stats);
                 },
                 [&](Peer& to) {
                   to.say_hello();
                   to.reply(to.expect(Verb::watch));
                   to.event(Body().set_text("event", "draining"));
                   serve_stats(to);
                 }});
  Client client = connect(peer);
  REQUIRE(client
              .watch([&](const ClientEvent& event) {
                seen.push_back(event.event);
                hashes.insert(hashes.end(), event.hashes.begin(), event.hashes.end());
              })
              .ok());
  CHECK(!client.stats().ok());
  CHECK(client.stats().ok());
  CHECK(seen == std::vector<std::string>{"stored", "draining"});
  REQUIRE(hashes.size() == 1);
  CHECK(std::equal(hash.begin(), hash.end(), hashes[0].bytes.begin()));
}

TEST_CASE("A namespace of another client is refused") {
  FakePeer peer({[](Peer& to) {
                   to.say_hello();
                   to.register_namespace();
                 },
                 [](Peer& to) {
                   to.say_hello();
                   to.wait_for_close();
                 }});
  Client first = connect(peer);
  const auto ns = first.register_model(small_model());
  REQUIRE(ns.ok());
  Client second = connect(peer);
  const auto listing = second.list_blocks(*ns, 10);
  REQUIRE(!listing.ok());
  CHECK(listing.error().kind() == ErrorKind::invalid_argument);
}
