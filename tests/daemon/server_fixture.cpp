#include "server_fixture.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <future>

namespace kvstrata::daemon::test {

namespace {

/// Longer than any machine needs; only a hang gets there.
constexpr int hang_seconds = 120;

void set_nonblocking(int fd) {
  REQUIRE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

void take_descriptors(msghdr& message, std::vector<UniqueFd>* descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    REQUIRE(part->cmsg_type == SCM_RIGHTS);
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      REQUIRE(descriptors != nullptr);
      descriptors->emplace_back(fd);
    }
  }
}

}  // namespace

ByteVector message_bytes(Header header, const Body& body, ByteView payload) {
  const ByteVector body_bytes = body.serialize();
  header.body_bytes = static_cast<std::uint32_t>(body_bytes.size());
  header.payload_bytes = payload.size();
  const protocol::HeaderBytes header_bytes = protocol::serialize(header);
  ByteVector bytes(header_bytes.begin(), header_bytes.end());
  bytes.insert(bytes.end(), body_bytes.begin(), body_bytes.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

TestClient::TestClient(UniqueFd socket) : socket_(std::move(socket)) {
  const timeval hang{hang_seconds, 0};
  setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof hang);
  setsockopt(fd(), SOL_SOCKET, SO_SNDTIMEO, &hang, sizeof hang);
}

void TestClient::send_bytes(ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return;  // receive() will tell
    REQUIRE(sent > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

std::uint64_t TestClient::send(Verb verb, const Body& body, ByteView payload, std::uint64_t id) {
  Header header;
  header.verb = verb;
  header.request_id = id != 0 ? id : next_id_++;
  send_bytes(message_bytes(header, body, payload));
  return header.request_id;
}

bool TestClient::receive_exactly(std::byte* to, std::size_t bytes,
                                 std::vector<UniqueFd>* descriptors) {
  while (bytes != 0) {
    iovec place{to, bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)];
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t received = recvmsg(fd(), &message, MSG_CMSG_CLOEXEC);
    if (received == 0 || (received < 0 && errno == ECONNRESET)) return false;
    REQUIRE_MESSAGE(received > 0, "the server does not answer");
    take_descriptors(message, descriptors);
    to += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return true;
}

std::optional<Message> TestClient::receive() {
  Message message;
  protocol::HeaderBytes header;
  // Descriptors come with the first byte: anywhere else they fail the test.
  if (!receive_exactly(header.data(), 1, &message.descriptors)) return std::nullopt;
  if (!receive_exactly(header.data() + 1, header.size() - 1, nullptr)) return std::nullopt;
  const auto parsed = protocol::parse_header(header);
  REQUIRE(parsed.ok());
  message.header = *parsed;
  ByteVector body(message.header.body_bytes);
  message.payload.resize(message.header.payload_bytes);
  if (!receive_exactly(body.data(), body.size(), nullptr)) return std::nullopt;
  if (!receive_exactly(message.payload.data(), message.payload.size(), nullptr)) {
    return std::nullopt;
  }
  auto parsed_body = Body::parse(body);
  REQUIRE(parsed_body.ok());
  message.body = std::move(*parsed_body);
  CHECK(message.descriptors.size() == message.header.descriptors);
  return message;
}

Message TestClient::call(Verb verb, const Body& body, ByteView payload) {
  const std::uint64_t id = send(verb, body, payload);
  auto reply = receive();
  REQUIRE_MESSAGE(reply.has_value(), "the server closed the connection");
  CHECK(reply->header.request_id == id);
  CHECK(reply->header.verb == verb);
  return std::move(*reply);
}

Message TestClient::hello(const std::string& token) {
  Body body;
  body.set_u64("protocol", 1).set_text("client", "test/1");
  if (!token.empty()) body.set_text("token", token);
  return call(Verb::hello, body);
}

bool TestClient::is_closed() {
  std::byte byte;
  return !receive_exactly(&byte, 1, nullptr);
}

TestServer::TestServer(ServerOptions options) {
  options.clock = &clock;
  options.own_uid = geteuid();
  options.server_name = "kvstratad/test";
  options.store_id = "0123";
  server = std::make_unique<Server>(std::move(options), loop, engine);
  thread_ = std::thread([this] { loop.run(); });
}

TestServer::~TestServer() {
  on_loop([this] { server.reset(); });
  loop.stop();
  thread_.join();
}

TestClient TestServer::connect(int buffer_bytes) {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  UniqueFd theirs(ends[0]), ours(ends[1]);
  set_nonblocking(theirs.get());
  on_loop([&] { server->adopt(std::move(theirs)); });
  if (buffer_bytes != 0) {
    setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    setsockopt(ours.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
  }
  return TestClient(std::move(ours));
}

TestClient TestServer::connect_authenticated(int buffer_bytes) {
  TestClient client = connect(buffer_bytes);
  REQUIRE(client.hello().header.status == 0);
  return client;
}

void TestServer::wait_until(const std::function<bool()>& condition) {
  while (!on_loop(condition)) std::this_thread::yield();
}

HashSelection hashes(std::uint32_t count) {
  HashSelection selection;
  selection.body.set_u64("ns", 7).set_text("by", "hash").set_u64("count", count);
  selection.payload.resize(count * sizeof(Hash256), std::byte{5});
  return selection;
}

std::uint64_t resident_bytes() {
  std::uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace kvstrata::daemon::test
