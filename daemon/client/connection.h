// A Connection is one stream to the daemon, from HELLO to its end: requests in flight, replies,
// events, and the shared memory that came over it. It is never reopened; what depends on it
// (leases, reservations) holds it and so notices its end. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/client/cancel_switch.h"
#include "daemon/client/chunk_table.h"
#include "daemon/client/frame_reader.h"
#include "kvstrata/client.h"

namespace kvstrata::client {

/// A request but for its id. `values` follow `payload` on the wire.
struct Outgoing {
  protocol::Verb verb = protocol::Verb::hello;
  protocol::Body body = {};
  ByteVector payload = {};
  std::span<const ByteView> values = {};
};

/// Says where the payload of a successful reply goes. An error ends the connection.
using PayloadSink = std::function<Result<std::vector<MutableBytes>>(const protocol::Body& body,
                                                                    std::uint64_t payload_bytes)>;

class Connection final : private FrameReader::Handler {
 public:
  /// Connects, says HELLO. `cancel` outlives the connection.
  static Result<std::shared_ptr<Connection>> open(const Address& address,
                                                  const ClientOptions& options,
                                                  const CancelSwitch& cancel,
                                                  MonotonicTime deadline);

  const ServerInfo& server() const { return server_; }
  bool closed() const { return end_.has_value(); }
  int fd() const { return closed() ? -1 : socket_.fd(); }
  void close(Error why);
  /// Closes because of what the daemon sent; returns the reason.
  Error fail(Error why);

  /// Sends; the id for wait(). A request half sent at the deadline ends the connection.
  Result<std::uint64_t> send(const Outgoing& request, MonotonicTime deadline,
                             PayloadSink sink = {});
  /// The reply's body, or its error. A reply that comes after the deadline is dropped, and what it
  /// grants is given back.
  Result<protocol::Body> wait(std::uint64_t id, MonotonicTime deadline);
  Result<protocol::Body> call(const Outgoing& request, MonotonicTime deadline,
                              PayloadSink sink = {});
  /// Sends; whatever the reply is, it is dropped. For destructors: nothing to do about a failure.
  void post(const Outgoing& request, MonotonicTime deadline);

  /// Handles what has arrived, without waiting.
  Status process_events();
  /// Sends what otherwise goes with the next request: chunks unmapped, grants given back.
  Status say_what_is_due(MonotonicTime deadline);

  /// A reply will not be used any more: what it granted is given back with the next request.
  void give_back(protocol::Verb verb, const protocol::Body& body);

  ChunkTable& chunks() { return chunks_; }
  /// Blocks must come in messages: by choice, over TCP, or after a chunk could not be mapped.
  bool inline_only() const { return inline_only_; }

  std::function<void(const ClientEvent&)> on_event;

 private:
  struct Pending {
    PayloadSink sink;
    bool dropped = false;
    std::optional<Result<protocol::Body>> reply;
  };

  Connection(Socket socket, const ClientOptions& options, const CancelSwitch& cancel);

  Result<std::vector<MutableBytes>> place_payload(const protocol::Header& header,
                                                  const protocol::Body& body) override;
  Status on_message(const protocol::Header& header, protocol::Body body,
                    std::vector<FileDescriptor> descriptors) override;
  Status map_chunks(const protocol::Body& body, std::span<const FileDescriptor> descriptors);
  Status handle_event(const protocol::Body& body);
  std::vector<MutableBytes> discard(std::uint64_t bytes);
  Status write(std::vector<iovec> buffers, MonotonicTime deadline);
  /// Handles one message; waits for it. False: the deadline passed, or `wake_fd` is readable.
  Result<bool> read_one(int wake_fd, MonotonicTime deadline);
  Status make_room(MonotonicTime deadline);
  void add_what_is_due();
  std::uint64_t add_head(protocol::Verb verb, ByteView body, std::uint64_t payload_bytes);
  Error give_up(std::uint64_t id);

  Socket socket_;
  FrameReader reader_{socket_};
  const CancelSwitch& cancel_;
  ChunkTable chunks_;
  bool inline_only_;
  ServerInfo server_;
  std::optional<Error> end_;

  std::uint64_t next_id_ = 1;
  ByteVector outbox_;  // whole messages that go out first
  std::unordered_map<std::uint64_t, Pending> pending_;
  ByteVector event_payload_;
  ByteVector scratch_;
  std::vector<std::uint64_t> leases_to_release_;
  std::vector<std::uint64_t> slots_to_abort_;
};

}  // namespace kvstrata::client
