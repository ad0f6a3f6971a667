// A Session is one connection without its socket: who the client is, which requests are in flight,
// what it was sent. The connection brings it messages and sends what it queues.
//
// Control thread. Lifetime: shared; requests in the engine keep it after its connection is gone.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "daemon/protocol/header.h"
#include "daemon/protocol/memory_body.h"
#include "daemon/server/context.h"
#include "daemon/server/out_queue.h"
#include "daemon/server/request.h"

namespace kvstrata::daemon {

/// What a Session asks of its connection. None of these call back into the session before they
/// return.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void want_flush() = 0;
  virtual void want_read() = 0;  ///< may_read() became true
};

class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Context> context, Transport& transport, ConnectionId id, Peer peer);

  // ---- reading side
  bool may_read() const;
  /// An error ends the connection; it was answered already.
  Status admit_header(const protocol::Header& header);
  /// The request, or nothing: it was answered already and its payload is to be skipped.
  RequestPtr admit_body(const protocol::Header& header, ByteView body);
  void dispatch(const RequestPtr& request);

  // ---- handlers
  Context& context() { return *shared_context_; }
  const Caller& caller() const { return caller_; }
  /// The engine is done with a request; true if it still waits for its answer.
  bool finish(Request& request);
  /// Answers a finished request that waits. A reply that can't be made becomes an error.
  void answer(const Request& request, Result<Reply> reply);
  /// Both for requests that are answered without waiting.
  void answer_now(Request& request, Result<Reply> reply);
  void authenticated(const TenantIdentity& tenant);
  void close_after_flush() { closing_ = true; }
  void watch() { watching_ = true; }
  /// False if no such request waits.
  bool cancel(std::uint64_t request_id);
  void expire_request(std::uint64_t request_id);
  /// Later, if a reply that reads under the lease is still being sent.
  Status release_lease(LeaseId lease);
  void chunk_unmapped(ChunkId chunk);

  // ---- events
  bool is_watching(TenantId tenant) const { return watching_ && caller_.tenant == tenant; }
  /// Watchers lose events rather than memory; `must_arrive` events are never dropped.
  void send_event(const protocol::Body& body, ByteView payload, bool must_arrive);

  // ---- sending side
  OutQueue& out() { return out_; }
  /// Leases that queued replies read under get more time. False: one ended, so what is queued can't
  /// be sent.
  bool renew_held_leases();
  bool is_authenticated() const { return authenticated_; }
  bool is_closing() const { return closing_; }
  ConnectionId id() const { return caller_.connection; }
  const Peer& peer() const { return peer_; }
  std::size_t in_flight() const { return in_flight_.size(); }
  /// The socket is gone: frees everything the client had.
  void closed();
  /// Answers the first message with this and ends.
  void refuse(Error error) { refused_ = std::move(error); }
  bool is_refused() const { return refused_.has_value(); }

 private:
  struct InFlight {
    protocol::Verb verb = protocol::Verb::hello;
    DeadlineQueue::Place deadline;
  };
  struct HeldLease {
    std::uint32_t replies = 0;
    bool release_when_sent = false;
    std::optional<MonotonicTime> renew_at;
  };

  Status fail_protocol(const protocol::Header& header, const Error& error);
  Status check_request(const protocol::Header& header) const;
  void send_error(protocol::Verb verb, std::uint64_t id, const Error& error);
  void send(const Request& request, Reply reply);
  Status make_reply(const Request& request, Reply& reply);
  void push(protocol::Header header, ByteView body, ByteView small_payload, OutMessage message);
  void hold_lease(const Reply& reply);
  void message_sent(const OutMessage& message);
  Result<std::vector<UniqueFd>> announce(std::span<const ChunkId> chunks,
                                         std::vector<protocol::ChunkAnnouncement>& announced);
  Status send_chunk_events(std::vector<ChunkId>& chunks);

  std::shared_ptr<Context> shared_context_;
  Context& context_;
  Transport* transport_;  ///< null once closed
  Peer peer_;
  Caller caller_;
  std::optional<Error> refused_;
  bool authenticated_ = false;
  bool closing_ = false;
  bool watching_ = false;
  std::uint64_t events_lost_ = 0;  ///< since the last event that was sent
  std::uint32_t outstanding_ = 0;  ///< the engine works on these, waited for or not
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  std::unordered_map<LeaseId, HeldLease> held_leases_;
  std::unordered_set<ChunkId> chunks_sent_;
  OutQueue out_;
};

}  // namespace kvstrata::daemon
