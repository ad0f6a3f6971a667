// What a connection may send, and what happens to it if it sends something else.
#include <doctest/doctest.h>
#include <fcntl.h>

#include "../base/seed.h"
#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

struct BadHeader {
  const char* what;
  void (*spoil)(Header&);
  ErrorKind kind;
};

constexpr BadHeader bad_headers[] = {
    {"another magic", [](Header& h) { h.magic = 0x20544547; }, ErrorKind::protocol},
    {"verb 0", [](Header& h) { h.verb = static_cast<Verb>(0); }, ErrorKind::protocol},
    {"a verb beyond the last", [](Header& h) { h.verb = static_cast<Verb>(31); },
     ErrorKind::protocol},
    {"the event verb", [](Header& h) { h.verb = Verb::event; }, ErrorKind::protocol},
    {"a reply", [](Header& h) { h.kind = protocol::MessageKind::reply; }, ErrorKind::protocol},
    {"an unknown kind", [](Header& h) { h.kind = static_cast<protocol::MessageKind>(9); },
     ErrorKind::protocol},
    {"a reserved bit", [](Header& h) { h.reserved = 1; }, ErrorKind::protocol},
    {"a status", [](Header& h) { h.status = 1; }, ErrorKind::protocol},
    {"descriptors", [](Header& h) { h.descriptors = 1; }, ErrorKind::protocol},
    {"request id 0", [](Header& h) { h.request_id = 0; }, ErrorKind::protocol},
    {"a body over 1 MiB", [](Header& h) { h.body_bytes = (1u << 20) + 1; }, ErrorKind::too_large},
    {"a payload over 1 GiB", [](Header& h) { h.payload_bytes = (1ull << 30) + 1; },
     ErrorKind::too_large},
    {"lengths of all ones",
     [](Header& h) {
       h.body_bytes = UINT32_MAX;
       h.payload_bytes = UINT64_MAX;
     },
     ErrorKind::too_large},
};

ByteView view(const protocol::HeaderBytes& bytes) {
  return bytes;
}

Body nested(int depth) {
  Body body;
  body.set_u64("x", 1);
  for (int i = 1; i < depth; ++i) {
    Body outer;
    outer.set_body("x", body);
    body = outer;
  }
  return body;
}

}  // namespace

TEST_CASE("A header that is not protocol 1 is answered with its kind, then the connection ends") {
  TestServer server;
  for (const BadHeader& bad : bad_headers) {
    CAPTURE(bad.what);
    TestClient client = server.connect_authenticated();
    Header header;
    header.verb = Verb::exists;
    header.request_id = 77;
    bad.spoil(header);
    client.send_bytes(view(protocol::serialize(header)));
    const auto reply = client.receive();
    REQUIRE(reply);
    CHECK(reply->error() == bad.kind);
    CHECK(reply->header.request_id == header.request_id);
    CHECK(client.is_closed());
  }
  CHECK(server.counters().protocol_errors == std::size(bad_headers));
}

TEST_CASE("Random bytes instead of HELLO end the connection and nothing else") {
  TestServer server;
  kvstrata::test::Random random(kvstrata::test::test_seed("random bytes"));
  for (int round = 0; round < 50; ++round) {
    TestClient client = server.connect();
    ByteVector noise(32 + random.below(4096));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.bits());
    client.send_bytes(noise);
    shutdown(client.fd(), SHUT_WR);
    while (client.receive()) {
    }
  }
  CHECK(server.connect().hello().header.status == 0);
}

TEST_CASE("A message may arrive byte by byte, and many may arrive at once") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  const HashSelection selection = hashes(2);
  Header header;
  header.verb = Verb::exists;
  header.request_id = 50;
  for (const std::byte byte : message_bytes(header, selection.body, selection.payload)) {
    client.send_bytes({&byte, 1});
  }
  CHECK(client.receive()->header.request_id == 50);

  ByteVector many;
  for (std::uint64_t id = 100; id < 300; ++id) {
    header.request_id = id;
    const ByteVector one = message_bytes(header, selection.body, selection.payload);
    many.insert(many.end(), one.begin(), one.end());
  }
  client.send_bytes(many);
  for (std::uint64_t id = 100; id < 300; ++id) {
    const auto reply = client.receive();
    REQUIRE(reply);
    CHECK(reply->header.request_id == id);
    CHECK(reply->number("blocks") == 2);
  }
}

TEST_CASE("A body that is wrong is answered by name and the connection stays") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  Header header;
  header.verb = Verb::exists;
  header.request_id = 5;
  header.body_bytes = 3;
  ByteVector broken(35, std::byte{0xc1});  // never used by MessagePack
  const protocol::HeaderBytes head = protocol::serialize(header);
  std::copy(head.begin(), head.end(), broken.begin());
  client.send_bytes(broken);
  CHECK(client.receive()->error() == ErrorKind::invalid_argument);

  CHECK(client.call(Verb::exists, nested(9)).error() == ErrorKind::invalid_argument);

  HashSelection selection = hashes(1);
  selection.body.set_text("count", "one");
  const Message reply = client.call(Verb::exists, selection.body, selection.payload);
  CHECK(reply.error() == ErrorKind::invalid_argument);
  CHECK(reply.text("message").find("count") != std::string::npos);

  selection.body.set_u64("count", 1).set_u64("deadline_ms", 0);
  CHECK(client.call(Verb::exists, selection.body, selection.payload).error() ==
        ErrorKind::invalid_argument);
  selection.body.set_u64("deadline_ms", 600'001);
  CHECK(client.call(Verb::exists, selection.body, selection.payload).error() ==
        ErrorKind::invalid_argument);
  selection.body.set_u64("deadline_ms", 600'000);
  CHECK(client.call(Verb::exists, selection.body, selection.payload).header.status == 0);
}

TEST_CASE("A payload that its verb does not take is skipped, and the connection stays") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  const ByteVector payload(300'000, std::byte{1});
  CHECK(client.call(Verb::stats, {}, payload).error() == ErrorKind::too_large);
  CHECK(client.call(Verb::stats).header.status == 0);
}

TEST_CASE("A request id may be used again once it was answered, not before") {
  TestServer server;
  server.engine.answer_at_once = false;
  TestClient client = server.connect_authenticated();
  const HashSelection selection = hashes(1);
  client.send(Verb::exists, selection.body, selection.payload, 9);
  server.wait_until([&] { return server.engine.exists_pending.size() == 1; });
  server.on_loop([&] {
    auto pending = std::move(server.engine.exists_pending.front());
    server.engine.exists_pending.pop_front();
    pending.done(Present{1, {1}});
  });
  CHECK(client.receive()->header.request_id == 9);

  client.send(Verb::exists, selection.body, selection.payload, 9);
  client.send(Verb::exists, selection.body, selection.payload, 9);
  CHECK(client.receive()->error() == ErrorKind::protocol);
  CHECK(client.is_closed());
}

TEST_CASE("A client that dies in the middle of a message leaves nothing behind") {
  TestServer server;
  const HashSelection selection = hashes(100);
  Header header;
  header.verb = Verb::exists;
  header.request_id = 1;
  const ByteVector whole = message_bytes(header, selection.body, selection.payload);
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{31}, std::size_t{33}, whole.size() - 1}) {
    TestClient client = server.connect_authenticated();
    client.send_bytes(ByteView(whole).first(cut));
  }
  server.wait_until([&] { return server.engine.closed.size() == 4; });
  CHECK(server.on_loop([&] { return server.server->context().connections; }) == 0);
  CHECK(server.on_loop([&] { return server.server->context().inline_memory->used_bytes(); }) == 0);
}

TEST_CASE("Lengths that are claimed and not sent cost no memory") {
  ServerOptions options;
  options.inline_bytes_max = std::uint64_t{64} << 30;  // so that the bound does not help
  TestServer server(std::move(options));
  const std::uint64_t before = resident_bytes();
  std::vector<TestClient> clients;
  for (int i = 0; i < 32; ++i) {
    clients.push_back(server.connect_authenticated());
    Body body;
    body.set_u64("ns", 7).set_text("by", "key").set_u64("count", 1);
    const ByteVector bytes = body.serialize();
    Header header;
    header.verb = Verb::put;
    header.request_id = 1;
    header.body_bytes = static_cast<std::uint32_t>(bytes.size());
    header.payload_bytes = protocol::payload_bytes_max;
    clients.back().send_bytes(view(protocol::serialize(header)));
    clients.back().send_bytes(bytes);
    clients.back().send_bytes(ByteVector(1000));
  }
  server.wait_until([&] {
    return server.server->context().inline_memory->used_bytes() == std::uint64_t{32} << 30;
  });
  server.on_loop([] {});
  CHECK(resident_bytes() - before < (std::uint64_t{48} << 20));
  clients.clear();
  server.wait_until([&] { return server.server->context().inline_memory->used_bytes() == 0; });
}
