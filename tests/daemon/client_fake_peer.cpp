#include "tests/daemon/client_fake_peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <xxhash.h>

#include <cstdlib>
#include <filesystem>

#include "daemon/protocol/error_body.h"
#include "daemon/protocol/header.h"

namespace kvstrata::test {

using protocol::Body;
using protocol::Header;
using protocol::MessageKind;
using protocol::Verb;

// ---- Peer

bool Peer::read_exactly(MutableBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    KV_CHECK(count >= 0, "the client did not send what the script expects");
    if (count == 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

Message Peer::receive() {
  Message message;
  protocol::HeaderBytes bytes;
  KV_CHECK(read_exactly(bytes), "the client closed");
  message.header = protocol::parse_header(bytes).value();
  ByteVector body(message.header.body_bytes);
  KV_CHECK(read_exactly(body), "the client closed within a body");
  message.body = Body::parse(body).value();
  message.payload.resize(message.header.payload_bytes);
  KV_CHECK(read_exactly(message.payload), "the client closed within a payload");
  return message;
}

Message Peer::expect(Verb verb) {
  Message message = receive();
  KV_CHECK(message.header.verb == verb, std::string(to_string(message.header.verb)).c_str());
  return message;
}

bool Peer::wait_for_close() {
  std::byte byte;
  return !socket_.is_open() || !read_exactly({&byte, 1});
}

void Peer::send_bytes(ByteView bytes, std::vector<int> descriptors) {
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * 64)] = {};
  while (!bytes.empty()) {
    iovec place{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      const std::size_t length = descriptors.size() * sizeof(int);
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(length);
      cmsghdr* part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(length);
      std::memcpy(CMSG_DATA(part), descriptors.data(), length);
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent <= 0) return;  // the client closed: some tests are about that
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
    descriptors.clear();
  }
}

void Peer::send(Header header, const Body& body, ByteView payload, std::vector<int> descriptors) {
  const ByteVector body_bytes = body.serialize();
  header.body_bytes = static_cast<std::uint32_t>(body_bytes.size());
  header.payload_bytes = payload.size();
  const auto header_bytes = protocol::serialize(header);
  ByteVector bytes(header_bytes.begin(), header_bytes.end());
  bytes.insert(bytes.end(), body_bytes.begin(), body_bytes.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  send_bytes(bytes, std::move(descriptors));
}

void Peer::reply(const Message& to, const Body& body, ByteView payload,
                 std::vector<int> descriptors) {
  const Header header{.verb = to.header.verb,
                      .kind = MessageKind::reply,
                      .request_id = to.header.request_id,
                      .descriptors = static_cast<std::uint16_t>(descriptors.size())};
  send(header, body, payload, std::move(descriptors));
}

void Peer::fail(const Message& to, ErrorKind kind) {
  const Header header{.verb = to.header.verb,
                      .kind = MessageKind::reply,
                      .status = static_cast<std::uint16_t>(kind),
                      .request_id = to.header.request_id};
  send(header, protocol::error_body(Error(kind, "as scripted")), {}, {});
}

void Peer::event(const Body& body, ByteView payload, std::vector<int> descriptors) {
  const Header header{.verb = Verb::event,
                      .kind = MessageKind::event,
                      .descriptors = static_cast<std::uint16_t>(descriptors.size())};
  send(header, body, payload, std::move(descriptors));
}

void Peer::say_hello(std::string_view tenant) {
  const Message hello = expect(Verb::hello);
  Body body;
  body.set_u64("protocol", 1).set_text("server", "fake/1").set_text("tenant", tenant);
  body.set_text("store", "00").set_bytes("boot", ByteVector(16)).set_bool("admin", true);
  reply(hello, body);
}

void Peer::register_namespace(std::uint64_t epoch) {
  const Message request = expect(Verb::register_model);
  Body body;
  const auto groups = request.body.get_body("model")->get_bodies("groups", 64);
  const std::vector<std::uint64_t> block_bytes(groups->size(), small_block_bytes);
  body.set_u64("ns", 5).set_bytes("hash", ByteVector(32, std::byte{9})).set_u64("epoch", epoch);
  reply(request, body.set_u64s("block_bytes", block_bytes));
}

// ---- FakePeer

FakePeer::FakePeer(std::vector<Script> scripts) {
  std::string folder = (std::filesystem::temp_directory_path() / "kvs-peer-XXXXXX").string();
  KV_CHECK(::mkdtemp(folder.data()) != nullptr, "no temporary folder");
  folder_ = folder;
  path_ = folder_ + "/s";
  listener_ = client::FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path_.c_str(), path_.size() + 1);
  KV_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0, "bind");
  KV_CHECK(::listen(listener_.get(), 8) == 0, "listen");
  thread_ = std::thread([this, todo = std::move(scripts)] {
    for (const Script& script : todo) {
      client::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      KV_CHECK(socket.is_open(), "accept");
      const timeval patience{.tv_sec = 20, .tv_usec = 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      Peer peer(std::move(socket));
      script(peer);
    }
  });
}

void FakePeer::finish() {
  if (thread_.joinable()) thread_.join();
}

FakePeer::~FakePeer() {
  finish();
  std::filesystem::remove_all(folder_);
}

Client connect(const FakePeer& peer, Milliseconds request_timeout, bool shared_memory) {
  return std::move(Client::connect({.address = peer.address(),
                                    .connect_timeout = Milliseconds(10'000),
                                    .request_timeout = request_timeout,
                                    .shared_memory = shared_memory}))
      .value();
}

NamespaceSpec small_model() {
  NamespaceSpec spec;
  spec.model.fingerprint = "f";
  spec.model.block_tokens = 16;
  spec.model.groups = {{.layers = 1, .kv_heads = 2, .head_dim_k = 8, .head_dim_v = 8}};
  return spec;
}

// ---- TestChunk

TestChunk::TestChunk(std::uint64_t id, std::uint32_t slots, std::uint64_t slot_bytes,
                     protocol::ChunkKind kind, bool sealed)
    : id_(id), kind_(kind), shape_{slot_bytes, slots} {
  file_ = client::FileDescriptor(::memfd_create("test-chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = static_cast<off_t>(shape_.file_bytes());
  KV_CHECK(file_.is_open() && ::ftruncate(file_.get(), bytes) == 0, "memfd");
  void* at = ::mmap(nullptr, shape_.file_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd(), 0);
  KV_CHECK(at != MAP_FAILED, "mmap");
  data_ = static_cast<std::byte*>(at);
  header() = {.chunk_id = id,
              .slot_bytes = slot_bytes,
              .slots = slots,
              .data_offset = shape_.data_offset()};
  for (std::uint32_t i = 0; i < slots; ++i) set_generation(i, hostmem::first_generation);
  if (!sealed) return;
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW |
                    (kind == protocol::ChunkKind::read ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
  KV_CHECK(::fcntl(fd(), F_ADD_SEALS, seals) == 0, "seal");
}

TestChunk::~TestChunk() {
  ::munmap(data_, shape_.file_bytes());
}

void TestChunk::set_generation(std::uint32_t slot, std::uint64_t generation) {
  auto* words = reinterpret_cast<std::uint64_t*>(data_ + sizeof(hostmem::ChunkHeader));
  __atomic_store_n(words + slot, generation, __ATOMIC_RELEASE);
}

protocol::BlockRef TestChunk::publish(std::uint32_t index, ByteView bytes,
                                      std::uint64_t generation) {
  std::memcpy(slot(index).data(), bytes.data(), bytes.size());
  set_generation(index, generation);
  protocol::BlockRef ref = inline_ref(bytes);
  ref.chunk = id_;
  ref.offset = shape_.slot_offset(index);
  ref.generation = generation;
  return ref;
}

protocol::StagingRef TestChunk::staging(std::uint32_t slot, std::uint64_t bytes) const {
  return {.slot = 100 + slot, .chunk = id_, .offset = shape_.slot_offset(slot), .bytes = bytes};
}

// ---- bodies

ByteVector pattern(std::size_t bytes, unsigned seed) {
  ByteVector out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>((i * 31 + seed * 97 + (i >> 8)) & 255);
  }
  return out;
}

Body lease_body(std::uint32_t blocks, std::uint64_t lease) {
  Body body;
  body.set_u64("blocks", blocks).set_u64("lease", lease).set_u64("expires_in_ms", 10'000);
  body.set_bytes("secret", pattern(16, 1));
  return body.set_bytes("tiers", ByteVector(blocks, std::byte{1}));
}

Body blocks_body(const std::vector<protocol::BlockRef>& refs) {
  Body body = lease_body(static_cast<std::uint32_t>(refs.size()));
  protocol::set_refs(body, refs);
  return body.set_bytes("status", ByteVector(refs.size()));
}

protocol::BlockRef inline_ref(ByteView bytes) {
  return {.bytes = bytes.size(), .xxh3 = XXH3_64bits(bytes.data(), bytes.size())};
}

}  // namespace kvstrata::test
