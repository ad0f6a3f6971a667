// A FakePeer is the daemon's end of a Unix socket, driven by a script: for what a real daemon never
// does. Scripts run on a thread of their own; what they see is looked at after finish().
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/client/file_descriptor.h"
#include "daemon/protocol/body.h"
#include "daemon/protocol/memory_body.h"
#include "hostmem/chunk_format.h"
#include "kvstrata/client.h"

namespace kvstrata::test {

struct Message {
  protocol::Header header;
  protocol::Body body;
  ByteVector payload;
};

/// One accepted connection. A client that stays silent for 20 s aborts the test.
class Peer {
 public:
  explicit Peer(client::FileDescriptor socket) : socket_(std::move(socket)) {}

  Message receive();
  /// receive(), which must bring this verb.
  Message expect(protocol::Verb verb);
  /// True once the client closed (or this end did); false if it sent something.
  bool wait_for_close();

  void reply(const Message& to, const protocol::Body& body = {}, ByteView payload = {},
             std::vector<int> descriptors = {});
  void fail(const Message& to, ErrorKind kind);
  void event(const protocol::Body& body, ByteView payload = {}, std::vector<int> descriptors = {});
  /// A message whose header says what it likes.
  void send(protocol::Header header, const protocol::Body& body, ByteView payload,
            std::vector<int> descriptors);
  void send_bytes(ByteView bytes, std::vector<int> descriptors = {});
  void close() { socket_.reset(); }

  void say_hello(std::string_view tenant = "default");
  /// Answers a REGISTER: id 5, epoch as given.
  void register_namespace(std::uint64_t epoch = 0);

 private:
  bool read_exactly(MutableBytes bytes);

  client::FileDescriptor socket_;
};

class FakePeer {
 public:
  using Script = std::function<void(Peer&)>;

  /// One script per connection, in the order they come.
  explicit FakePeer(std::vector<Script> scripts);
  ~FakePeer();

  std::string address() const { return "unix:" + path_; }
  /// Waits for all scripts to end.
  void finish();

 private:
  std::string folder_, path_;
  client::FileDescriptor listener_;
  std::thread thread_;
};

/// A connected client, for tests in which connecting is not the point.
Client connect(const FakePeer& peer, Milliseconds request_timeout = Milliseconds(10'000),
               bool shared_memory = true);

/// block_tokens 16, block_bytes 1024.
NamespaceSpec small_model();
inline constexpr std::uint64_t small_block_bytes = 1024;

/// A chunk as the daemon makes it, and the test's own writable mapping of it.
class TestChunk {
 public:
  TestChunk(std::uint64_t id, std::uint32_t slots, std::uint64_t slot_bytes,
            protocol::ChunkKind kind = protocol::ChunkKind::read, bool sealed = true);
  ~TestChunk();
  TestChunk(const TestChunk&) = delete;
  TestChunk& operator=(const TestChunk&) = delete;

  int fd() const { return file_.get(); }
  hostmem::ChunkHeader& header() { return *reinterpret_cast<hostmem::ChunkHeader*>(data_); }
  MutableBytes slot(std::uint32_t index) {
    return {data_ + shape_.slot_offset(index), shape_.slot_bytes};
  }
  void set_generation(std::uint32_t slot, std::uint64_t generation);
  /// Fills the slot, publishes it as `generation`, says where it is.
  protocol::BlockRef publish(std::uint32_t slot, ByteView bytes, std::uint64_t generation = 2);
  protocol::StagingRef staging(std::uint32_t slot, std::uint64_t bytes) const;
  protocol::ChunkAnnouncement announcement() const { return {id_, kind_, shape_.file_bytes()}; }

 private:
  std::uint64_t id_;
  protocol::ChunkKind kind_;
  hostmem::ChunkShape shape_;
  client::FileDescriptor file_;
  std::byte* data_ = nullptr;
};

/// Bytes that differ by seed.
ByteVector pattern(std::size_t bytes, unsigned seed);

/// A grant of lease 77 over so many blocks, as LOOKUP and GET answer it.
protocol::Body lease_body(std::uint32_t blocks, std::uint64_t lease = 77);
/// The same with status 0 and a ref for each block.
protocol::Body blocks_body(const std::vector<protocol::BlockRef>& refs);
/// A ref of bytes that come in the message.
protocol::BlockRef inline_ref(ByteView bytes);

}  // namespace kvstrata::test
