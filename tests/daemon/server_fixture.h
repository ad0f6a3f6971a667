// A TestServer runs the session layer with a FakeEngine and a FakeClock on a thread of its own; a
// TestClient speaks raw protocol to it. Nothing sleeps: clients block until the server answers.
#pragma once

#include <sys/socket.h>

#include <future>
#include <thread>

#include "daemon/protocol/body.h"
#include "daemon/protocol/header.h"
#include "daemon/server/control_loop.h"
#include "daemon/server/server.h"
#include "daemon/server/unique_fd.h"
#include "server_fake_engine.h"

namespace kvstrata::daemon::test {

using protocol::Body;
using protocol::Header;
using protocol::Verb;

struct Message {
  Header header;
  Body body;
  ByteVector payload;
  std::vector<UniqueFd> descriptors;

  ErrorKind error() const { return static_cast<ErrorKind>(header.status); }
  std::string text(std::string_view key) const { return *body.get_text(key, 4096); }
  std::uint64_t number(std::string_view key) const { return *body.get_u64(key, 0, UINT64_MAX); }
};

class TestClient {
 public:
  explicit TestClient(UniqueFd socket);

  int fd() const { return socket_.get(); }
  void send_bytes(ByteView bytes);
  /// Header and body are made to fit; returns the request id.
  std::uint64_t send(Verb verb, const Body& body = {}, ByteView payload = {}, std::uint64_t id = 0);
  /// Nothing if the server closed the connection.
  std::optional<Message> receive();
  Message call(Verb verb, const Body& body = {}, ByteView payload = {});
  Message hello(const std::string& token = "");
  /// Reads until the server closes; false if something was still sent.
  bool is_closed();
  void close() { socket_ = UniqueFd(); }

 private:
  bool receive_exactly(std::byte* to, std::size_t bytes, std::vector<UniqueFd>* descriptors);

  UniqueFd socket_;
  std::uint64_t next_id_ = 1;
};

/// The bytes of a message.
ByteVector message_bytes(Header header, const Body& body, ByteView payload = {});

class TestServer {
 public:
  explicit TestServer(ServerOptions options = {});
  ~TestServer();

  /// A socket pair: the server adopts one end. `buffer_bytes` (0: default) shrinks both buffers.
  TestClient connect(int buffer_bytes = 0);
  /// The same, after HELLO.
  TestClient connect_authenticated(int buffer_bytes = 0);

  /// Runs `work` on the control thread and waits for it.
  template <typename Work>
  auto on_loop(Work work) {
    using Value = std::invoke_result_t<Work>;
    std::packaged_task<Value()> task(std::move(work));
    auto value = task.get_future();
    auto shared = std::make_shared<std::packaged_task<Value()>>(std::move(task));
    loop.executor().post([shared] { (*shared)(); });
    return value.get();
  }
  /// Waits (the loop turns meanwhile) until `condition`, evaluated on the control thread, is true.
  void wait_until(const std::function<bool()>& condition);

  ServerCounters counters() {
    return on_loop([this] { return server->context().counters; });
  }

  FakeClock clock;
  ControlLoop loop;
  FakeEngine engine;
  std::unique_ptr<Server> server;

 private:
  std::thread thread_;
};

/// Names of `count` blocks as a selection by hash.
struct HashSelection {
  Body body;
  ByteVector payload;
};
HashSelection hashes(std::uint32_t count);

std::uint64_t resident_bytes();

}  // namespace kvstrata::daemon::test
