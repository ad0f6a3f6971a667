// Sockets as the operating system sees them: files, ports, limits.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "daemon/server/sockets.h"
#include "server_fixture.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

struct TemporaryDirectory {
  TemporaryDirectory() {
    char name[] = "/tmp/kvstrata-server-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryDirectory() { (void)std::system(("rm -rf " + path).c_str()); }
  std::string path;
};

TestClient connect_unix(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return TestClient(std::move(fd));
}

TestClient connect_tcp(std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return TestClient(std::move(fd));
}

unsigned mode_of(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777u : 0u;
}

bool exists(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

}  // namespace

TEST_CASE("The socket file has exactly its mode, and goes with the server") {
  const TemporaryDirectory tmp;
  const std::string path = tmp.path + "/s";
  for (const unsigned mode : {0600u, 0660u, 0666u}) {
    const auto listener = UnixListener::open(path, mode);
    REQUIRE(listener.ok());
    CHECK(mode_of(path) == mode);
  }
  CHECK_FALSE(exists(path));
}

TEST_CASE("A stale socket is replaced, a live one refused, anything else left alone") {
  const TemporaryDirectory tmp;
  const std::string path = tmp.path + "/s";
  {
    const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  REQUIRE(exists(path));
  const auto first = UnixListener::open(path, 0600);
  REQUIRE(first.ok());
  const auto second = UnixListener::open(path, 0600);
  CHECK(second.error().kind() == ErrorKind::locked);
  CHECK(second.error().message().find("another process answers") != std::string::npos);

  const std::string file = tmp.path + "/file";
  std::ofstream(file) << "precious";
  CHECK(UnixListener::open(file, 0600).error().kind() == ErrorKind::exists);
  CHECK(exists(file));
}

TEST_CASE("A server that lost its path does not remove its successor's socket") {
  const TemporaryDirectory tmp;
  const std::string path = tmp.path + "/s";
  auto first = UnixListener::open(path, 0600);
  REQUIRE(first.ok());
  REQUIRE(unlink(path.c_str()) == 0);
  const auto second = UnixListener::open(path, 0600);
  REQUIRE(second.ok());
  first->close();
  CHECK(exists(path));
}

TEST_CASE("A path that is too long or in no directory is refused by name") {
  CHECK(UnixListener::open(std::string(200, 'x'), 0600).error().kind() ==
        ErrorKind::invalid_argument);
  CHECK_FALSE(UnixListener::open("/no/such/directory/s", 0600).ok());
}

TEST_CASE("Clients of the Unix socket are known by their user id") {
  const TemporaryDirectory tmp;
  ServerOptions options;
  options.socket_path = tmp.path + "/s";
  TestServer server(std::move(options));
  server.on_loop([&] { REQUIRE(server.server->listen().ok()); });
  TestClient client = connect_unix(tmp.path + "/s");
  const Message reply = client.hello();
  CHECK(reply.text("tenant") == "default");
  CHECK(*reply.body.get_bool("admin"));
  CHECK(client.call(Verb::stats).header.status == 0);
}

TEST_CASE("Over TCP blocks come inline only, and loopback without tokens has no admin rights") {
  const ByteVector block(5 << 20, std::byte{7});  // the server may read it until it is gone
  ServerOptions options;
  options.tcp = ListenAddress{"127.0.0.1", 0, true};
  TestServer server(std::move(options));
  server.on_loop([&] { REQUIRE(server.server->listen().ok()); });
  const std::uint16_t port = server.on_loop([&] { return server.server->tcp_port(); });
  TestClient client = connect_tcp(port);
  const Message reply = client.hello();
  CHECK(reply.text("tenant") == "default");
  CHECK_FALSE(*reply.body.get_bool("admin"));
  HashSelection selection = hashes(1);
  CHECK(client.call(Verb::get, selection.body, selection.payload).error() ==
        ErrorKind::unsupported);
  Body reserve;
  reserve.set_u64("ns", 7);
  CHECK(client.call(Verb::reserve, reserve).error() == ErrorKind::unsupported);
  server.on_loop([&] {
    server.engine.loaded.blocks = {{0, {1, 0, block.size(), 2, 0}, block.data()}};
    server.engine.loaded.grant.lease = LeaseId{1};
  });
  selection.body.set_bool("inline", true);
  CHECK(client.call(Verb::get, selection.body, selection.payload).payload == block);
}

TEST_CASE("The last reply before the end arrives over TCP, though bytes were left unread") {
  ServerOptions options;
  options.tcp = ListenAddress{"127.0.0.1", 0, true};
  TestServer server(std::move(options));
  server.on_loop([&] { REQUIRE(server.server->listen().ok()); });
  TestClient client = connect_tcp(server.on_loop([&] { return server.server->tcp_port(); }));
  Header header;
  header.magic = 1;
  header.request_id = 9;
  client.send_bytes(message_bytes(header, {}, ByteVector(500'000)));
  const auto reply = client.receive();
  REQUIRE(reply);
  CHECK(reply->error() == ErrorKind::protocol);
}

TEST_CASE("A port that is taken is an error") {
  const auto first = listen_tcp({"127.0.0.1", 0, true});
  REQUIRE(first.ok());
  const auto second = listen_tcp({"127.0.0.1", bound_port(first->get()), true});
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().message().find("127.0.0.1 port") != std::string::npos);
}
