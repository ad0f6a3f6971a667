#include <doctest/doctest.h>

#include "blocks.h"
#include "daemon_process.h"

using namespace kvstrata;
using namespace kvstrata::test;

namespace {

Namespace open(Client& client, const NamespaceSpec& spec = test_model()) {
  auto ns = client.register_model(spec);
  REQUIRE_MESSAGE(ns.ok(), (ns ? "" : ns.error().message()));
  return *ns;
}

void store(Client& client, const Namespace& ns, const TestSequence& sequence, bool durable) {
  const auto views = sequence.views();
  const auto stored = client.put(ns, {.tokens = sequence.tokens}, views, {.durable = durable});
  REQUIRE_MESSAGE(stored.ok(), (stored ? "" : stored.error().message()));
  CHECK(stored->all_stored());
}

void check_fetched(Client& client, const Namespace& ns, const TestSequence& sequence) {
  const auto fetched = client.get(ns, Selection::of_tokens(sequence.tokens));
  REQUIRE_MESSAGE(fetched.ok(), (fetched ? "" : fetched.error().message()));
  REQUIRE(fetched->blocks.size() == sequence.blocks.size());
  for (std::size_t i = 0; i < sequence.blocks.size(); ++i) {
    ByteVector bytes(sequence.blocks[i].size());
    REQUIRE(fetched->blocks[i].copy_out(bytes).ok());
    CHECK(bytes == sequence.blocks[i]);
    CHECK(fetched->blocks[i].verify().ok());
  }
}

}  // namespace

TEST_CASE("Durable blocks survive SIGKILL and come back bit-exact to another client") {
  DaemonProcess daemon;
  const TestSequence sequence(1, 6);
  {
    Client client = daemon.connect();
    store(client, open(client), sequence, true);
  }
  daemon.kill_hard();
  daemon.start();
  Client client = daemon.connect();
  const Namespace ns = open(client);
  const auto lease = client.lookup(ns, Selection::of_tokens(sequence.tokens));
  REQUIRE(lease.ok());
  CHECK(lease->blocks() == 6);
  for (const protocol::Tier tier : lease->tiers()) CHECK(tier == protocol::Tier::disk);
  check_fetched(client, ns, sequence);
}

TEST_CASE("SIGTERM makes visible blocks durable before the daemon exits with 0") {
  DaemonProcess daemon;
  const TestSequence sequence(2, 20);
  {
    Client client = daemon.connect();
    store(client, open(client), sequence, false);
  }
  CHECK(daemon.stop() == 0);
  daemon.start();
  Client client = daemon.connect();
  check_fetched(client, open(client), sequence);
}

TEST_CASE("A client goes on after a restart of the daemon; leases of the old one have expired") {
  DaemonProcess daemon;
  const TestSequence sequence(3, 2);
  Client client = daemon.connect();
  const Namespace ns = open(client);
  store(client, ns, sequence, true);
  const auto lease = client.lookup(ns, Selection::of_tokens(sequence.tokens));
  REQUIRE(lease.ok());
  daemon.kill_hard();
  daemon.start();
  const auto old = client.load(*lease, 0, 2);
  REQUIRE_FALSE(old.ok());
  CHECK(old.error().kind() == ErrorKind::lease_expired);
  check_fetched(client, ns, sequence);
}

TEST_CASE("A connection without shared memory gets the same bytes in its messages") {
  DaemonProcess daemon;
  const TestSequence sequence(4, 5);
  Client local = daemon.connect();
  store(local, open(local), sequence, false);
  Client remote = daemon.connect(false);
  CHECK_FALSE(remote.server().shared_memory);
  check_fetched(remote, open(remote), sequence);
  const TestSequence other(5, 3);
  store(remote, open(remote), other, true);
  check_fetched(local, open(local), other);
}

TEST_CASE("A17: clients that put the same keys at once leave one copy; other bytes are refused") {
  DaemonProcess daemon;
  const TestSequence sequence(6, 10);
  std::vector<Client> clients;
  for (int i = 0; i < 16; ++i) clients.push_back(daemon.connect());
  for (Client& client : clients) store(client, open(client), sequence, false);
  const TestSequence wrong(7, 10);
  const auto views = wrong.views();
  const Namespace ns = open(clients[0]);
  const auto refused = clients[0].put(ns, {.tokens = sequence.tokens}, views, {});
  REQUIRE(refused.ok());
  CHECK_FALSE(refused->all_stored());
  for (const std::uint8_t status : refused->status) {
    CHECK(status == static_cast<std::uint8_t>(ErrorKind::conflict));
  }
  check_fetched(clients[15], open(clients[15]), sequence);
}

TEST_CASE("A30: values of every length come back as they were put, after a restart too") {
  DaemonProcess daemon;
  NamespaceSpec spec;
  spec.model.fingerprint = "values";
  std::vector<std::size_t> lengths = {4095, 4096, 4097, 100'003};
  for (std::size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  const auto value_of = [](std::size_t length) {
    ByteVector value(length);
    for (std::size_t i = 0; i < length; ++i) value[i] = static_cast<std::byte>(i * 31 + length);
    return value;
  };
  {
    Client client = daemon.connect();
    const Namespace ns = open(client, spec);
    for (const std::size_t length : lengths) {
      const auto stored = client.put_value(ns, "k" + std::to_string(length), value_of(length), {});
      REQUIRE_MESSAGE(stored.ok(), (stored ? "" : stored.error().message()));
      CHECK(stored->all_stored());
    }
    REQUIRE(client.flush().ok());
  }
  daemon.kill_hard();
  daemon.start();
  Client client = daemon.connect();
  const Namespace ns = open(client, spec);
  for (const std::size_t length : lengths) {
    const auto fetched = client.get_value(ns, "k" + std::to_string(length));
    REQUIRE_MESSAGE(fetched.ok(), (fetched ? "" : fetched.error().message()));
    ByteVector bytes(fetched->blocks[0].bytes().size());
    REQUIRE(fetched->blocks[0].copy_out(bytes).ok());
    CHECK(bytes == value_of(length));
  }
}

TEST_CASE("A working set larger than host memory is served from disk, and memory stays in budget") {
  DaemonProcess daemon;
  Client client = daemon.connect();
  const Namespace ns = open(client);
  std::vector<TestSequence> sequences;
  for (std::uint32_t i = 0; i < 30; ++i) {
    sequences.emplace_back(100 + i, 32);  // 4 MiB each, 120 MiB in all, against 64 MiB
    store(client, ns, sequences.back(), true);
  }
  for (const TestSequence& sequence : sequences) check_fetched(client, ns, sequence);
  const auto stats = client.stats();
  REQUIRE(stats.ok());
  CHECK(stats->find("\"evicted_blocks\"") != std::string::npos);
}
