// Chunks over the Unix socket: each descriptor once per connection, with the right message.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/protocol/memory_body.h"
#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

/// A memfd per chunk; chunk i has i + 1 pages, so that descriptors can be told apart.
struct Chunks {
  explicit Chunks(TestServer& server, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
      REQUIRE(fd);
      const std::uint64_t bytes = (i + 1) * 4096;
      REQUIRE(ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
      server.engine.chunks.push_back(
          {ChunkId{100 + i}, hostmem::ChunkKind::read, TenantId{1}, bytes, 4096, 1, fd.get()});
      server.engine.loaded.blocks.push_back({0, {100 + i, 0, 4096, 2, 0}, nullptr});
      fds.push_back(std::move(fd));
    }
    server.engine.loaded.grant.lease = LeaseId{5};
    server.engine.loaded.grant.tiers.resize(count, Tier::host);
  }
  std::vector<UniqueFd> fds;
};

/// Checks that every announced chunk came with the descriptor of its own size; counts them.
std::size_t check_descriptors(const Message& message) {
  const auto announced = protocol::get_chunks(message.body);
  REQUIRE(announced.ok());
  REQUIRE(announced->size() == message.descriptors.size());
  for (std::size_t i = 0; i < announced->size(); ++i) {
    struct stat info{};
    REQUIRE(fstat(message.descriptors[i].get(), &info) == 0);
    CHECK(static_cast<std::uint64_t>(info.st_size) == (*announced)[i].file_bytes);
    CHECK((*announced)[i].file_bytes == ((*announced)[i].chunk - 99) * 4096);
  }
  return announced->size();
}

Message get(TestClient& client) {
  const HashSelection selection = hashes(1);
  return client.call(Verb::get, selection.body, selection.payload);
}

}  // namespace

TEST_CASE("A chunk's descriptor comes with the first reply that needs it, and never again") {
  TestServer server;
  const Chunks chunks(server, 3);
  TestClient client = server.connect_authenticated();
  const Message first = get(client);
  CHECK(first.number("lease") == 5);
  CHECK(check_descriptors(first) == 3);
  const Message second = get(client);
  CHECK(second.descriptors.empty());
  CHECK_FALSE(second.body.has("chunks"));
  CHECK(server.on_loop([&] { return server.engine.sent_chunks.size(); }) == 3);

  TestClient other = server.connect_authenticated();
  CHECK(check_descriptors(get(other)) == 3);
}

TEST_CASE("After CHUNK_UNMAPPED a chunk is sent anew; what was never sent is no news") {
  TestServer server;
  const Chunks chunks(server, 2);
  TestClient client = server.connect_authenticated();
  CHECK(check_descriptors(get(client)) == 2);
  Body unmapped;
  unmapped.set_u64s("chunks", std::vector<std::uint64_t>{101, 999});
  CHECK(client.call(Verb::chunk_unmapped, unmapped).header.status == 0);
  CHECK(server.on_loop([&] { return server.engine.unmapped_chunks.size(); }) == 1);
  CHECK(check_descriptors(get(client)) == 1);
}

TEST_CASE("More chunks than a message takes come in events before the reply") {
  TestServer server;
  const Chunks chunks(server, 100);
  TestClient client = server.connect_authenticated();
  const HashSelection selection = hashes(1);
  client.send(Verb::get, selection.body, selection.payload, 50);
  std::size_t received = 0;
  for (int i = 0; i < 3; ++i) {
    const auto event = client.receive();
    REQUIRE(event);
    CHECK(event->header.kind == protocol::MessageKind::event);
    CHECK(event->text("event") == "chunks");
    received += check_descriptors(*event);
  }
  const auto reply = client.receive();
  REQUIRE(reply);
  CHECK(reply->header.request_id == 50);
  CHECK(received + check_descriptors(*reply) == 100);
}

TEST_CASE("Descriptors stay with their messages when the socket takes little at a time") {
  TestServer server;
  const Chunks chunks(server, 4);
  const Loaded all = server.engine.loaded;
  TestClient client = server.connect_authenticated(4096);
  const HashSelection selection = hashes(1);
  for (std::uint64_t i = 0; i < 4; ++i) {
    server.on_loop([&] {
      server.engine.loaded.blocks = {all.blocks.begin(),
                                     all.blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1};
    });
    for (int j = 0; j < 50; ++j) {
      client.send(Verb::get, selection.body, selection.payload, 1000 + i * 100 + j);
    }
    // Read only now: replies queued up behind a full socket.
    for (int j = 0; j < 50; ++j) {
      const auto reply = client.receive();
      REQUIRE(reply);
      CHECK(check_descriptors(*reply) == (j == 0 ? 1 : 0));
    }
  }
}

TEST_CASE("RESERVE announces staging chunks; if they can't be passed the slots are given back") {
  TestServer server;
  const Chunks chunks(server, 1);
  server.engine.reserved.slots = {{7, 100, 0, 4096}};
  server.engine.reserved.expires_in_ms = 1000;
  TestClient client = server.connect_authenticated();
  Body reserve;
  reserve.set_u64("ns", 7).set_u64("slots", 1);
  const Message reply = client.call(Verb::reserve, reserve);
  CHECK(check_descriptors(reply) == 1);
  CHECK(protocol::get_slots(reply.body)->front().slot == 7);

  server.on_loop([&] { server.engine.reserved.slots = {{8, 555, 0, 4096}}; });
  CHECK(client.call(Verb::reserve, reserve).header.status != 0);
  CHECK(server.on_loop([&] { return server.engine.aborted; }) ==
        std::vector<std::vector<std::uint64_t>>{{8}});
}

TEST_CASE("The retirement of a chunk is told to the connection that maps it") {
  TestServer server;
  TestClient client = server.connect_authenticated();
  TestClient other = server.connect_authenticated();
  server.on_loop([&] {
    Event event;
    event.kind = Event::Kind::chunks_retired;
    event.to = ConnectionId{1};
    event.chunks = {ChunkId{4}, ChunkId{5}};
    server.engine.listener(event);
  });
  const auto event = client.receive();
  REQUIRE(event);
  CHECK(event->header.request_id == 0);
  CHECK(event->text("event") == "chunks_retired");
  CHECK(*event->body.get_u64s("chunks", 10) == std::vector<std::uint64_t>{4, 5});
  CHECK(other.call(Verb::stats).header.status == 0);  // and nothing came before
}

TEST_CASE("Who watches is told what its tenant stores and removes, others are not") {
  TestServer server;
  TestClient watcher = server.connect_authenticated();
  TestClient other = server.connect_authenticated();
  CHECK(watcher.call(Verb::watch).header.status == 0);
  const auto emit = [&](TenantId tenant) {
    server.on_loop([&] {
      Event event;
      event.kind = Event::Kind::stored;
      event.tenant = tenant;
      event.ns = NamespaceId{7};
      event.group = 1;
      event.tier = Tier::host;
      event.hashes = {Hash256{{std::byte{1}}}, Hash256{{std::byte{2}}}};
      server.engine.listener(event);
    });
  };
  emit(TenantId{2});
  emit(TenantId{1});
  const auto event = watcher.receive();
  REQUIRE(event);
  CHECK(event->text("event") == "stored");
  CHECK(event->number("ns") == 7);
  CHECK(event->number("tier") == 1);
  REQUIRE(event->payload.size() == 64);
  CHECK(event->payload[32] == std::byte{2});
  CHECK(other.call(Verb::stats).header.status == 0);
  CHECK(server.counters().events_sent == 1);
}

TEST_CASE("A watcher that does not read loses events, not memory, and is told how many") {
  ServerOptions options;
  options.limits.event_bytes_max = 1 << 20;
  TestServer server(std::move(options));
  TestClient watcher = server.connect_authenticated(64 << 10);
  CHECK(watcher.call(Verb::watch).header.status == 0);
  constexpr std::uint64_t events = 4000;
  Event event;
  event.tenant = TenantId{1};
  event.hashes.resize(256);
  server.on_loop([&] {
    for (std::uint64_t i = 0; i < events; ++i) server.engine.listener(event);
  });
  const std::uint64_t lost = server.counters().events_lost;
  CHECK(lost > 0);
  std::uint64_t received = 0;
  while (received < events - lost) {
    CHECK(watcher.receive()->text("event") == "stored");
    ++received;
  }
  server.on_loop([&] { server.engine.listener(event); });
  const auto told = watcher.receive();
  CHECK(told->text("event") == "lost");
  CHECK(told->number("count") == lost);
  CHECK(watcher.receive()->text("event") == "stored");
}
