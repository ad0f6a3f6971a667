#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "blocks.h"
#include "daemon_process.h"

using namespace kvstrata;
using namespace kvstrata::test;

TEST_CASE(
    "A28: a second daemon on a store fails at once and says who has it; the first is unhurt") {
  DaemonProcess daemon;
  const std::string link = daemon.directory() + "/link";
  std::filesystem::create_symlink(daemon.data(), link);
  for (const std::string& path : {daemon.data(), link}) {
    const auto refusal =
        run_daemon({"--data", path, "--socket", daemon.directory() + "/other.sock"});
    CHECK(refusal.exit_code != 0);
    CHECK(refusal.said.find("process") != std::string::npos);
  }
  Client client = daemon.connect();
  CHECK(client.stats().ok());
}

TEST_CASE("A28: after SIGKILL the next start needs no cleaning up") {
  DaemonProcess daemon;
  for (int i = 0; i < 3; ++i) {
    daemon.kill_hard();
    CHECK(std::filesystem::exists(daemon.socket()));
    daemon.start();
  }
  Client client = daemon.connect();
  CHECK(client.stats().ok());
}

TEST_CASE("A18: of a client killed between RESERVE and COMMIT nothing stays") {
  DaemonProcess daemon;
  const TestSequence sequence(1, 4);
  int told[2];
  REQUIRE(::pipe(told) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Client client = daemon.connect();
    const auto ns = client.register_model(test_model());
    auto reservation = client.reserve(*ns, 4);
    // Half of each block, then silence until the signal.
    for (const MutableBytes slot : reservation->slots()) {
      std::memcpy(slot.data(), sequence.blocks[0].data(), slot.size() / 2);
    }
    (void)!::write(told[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char x = 0;
  REQUIRE(::read(told[0], &x, 1) == 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(told[0]);
  ::close(told[1]);
  Client client = daemon.connect();
  const auto ns = client.register_model(test_model());
  REQUIRE(ns.ok());
  const auto lease = client.lookup(*ns, Selection::of_tokens(sequence.tokens));
  REQUIRE(lease.ok());
  CHECK(lease->blocks() == 0);
  const auto views = sequence.views();
  const auto stored = client.put(*ns, {.tokens = sequence.tokens}, views, {.durable = true});
  REQUIRE(stored.ok());
  CHECK(stored->all_stored());
  const auto stats = client.stats();
  REQUIRE(stats.ok());
  CHECK(stats->find("\"reserved_bytes\":0") != std::string::npos);
}

TEST_CASE("A public address without a token is refused, with what to do") {
  const std::string directory = std::filesystem::temp_directory_path() / "kvstrata-e2e-public";
  const auto refusal = run_daemon({"--data", directory, "--listen", "0.0.0.0:0"});
  CHECK(refusal.exit_code != 0);
  CHECK(refusal.said.find("public") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(directory + "/identity"));
}

TEST_CASE("Tenants by token never see each other's blocks; a wrong token is nobody") {
  const std::string config = std::filesystem::temp_directory_path() /
                             ("kvstrata-e2e-" + std::to_string(::getpid()) + ".toml");
  std::ofstream(config) << "[[tenants]]\nname = \"a\"\ntoken = \"token-of-a-0123456789\"\n"
                           "[[tenants]]\nname = \"b\"\ntoken = \"token-of-b-0123456789\"\n";
  std::filesystem::permissions(config, std::filesystem::perms::owner_read);
  DaemonProcess daemon({"--config", config});
  std::filesystem::remove(config);
  const TestSequence sequence(1, 2);
  Client a = daemon.connect(true, "token-of-a-0123456789");
  CHECK(a.server().tenant == "a");
  CHECK_FALSE(a.server().admin);
  const auto ns = a.register_model(test_model());
  REQUIRE(ns.ok());
  const auto views = sequence.views();
  REQUIRE(a.put(*ns, {.tokens = sequence.tokens}, views, {.durable = true}).ok());
  Client b = daemon.connect(true, "token-of-b-0123456789");
  const auto own = b.register_model(test_model());
  REQUIRE(own.ok());
  CHECK(own->hash() != ns->hash());
  const auto lease = b.lookup(*own, Selection::of_tokens(sequence.tokens));
  REQUIRE(lease.ok());
  CHECK(lease->blocks() == 0);
  CHECK_FALSE(b.open_namespace(ns->id()).ok());
  ClientOptions options;
  options.address = "unix:" + daemon.socket();
  options.token = "token-of-c-0123456789";
  const auto nobody = Client::connect(options);
  REQUIRE_FALSE(nobody.ok());
  CHECK(nobody.error().kind() == ErrorKind::unauthenticated);
}
