// A Session is what a Client keeps over restarts of the daemon: its options, the connection of the
// moment, and how to register namespaces again. One thread at a time, but for cancel().
#pragma once

#include <memory>

#include "daemon/client/connection.h"
#include "daemon/client/handles.h"
#include "daemon/protocol/new_blocks_body.h"
#include "daemon/protocol/selection_body.h"
#include "kvstrata/client.h"

namespace kvstrata::client {

using ConnectionPtr = std::shared_ptr<Connection>;

class Session {
 public:
  /// Connects; tries again until connect_timeout has passed.
  static Result<std::unique_ptr<Session>> open(ClientOptions options);
  ~Session();

  /// A Call spans one public call of a Client: its deadline, and that it can be cancelled.
  class Call {
   public:
    explicit Call(Session& session);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { session_.cancel_.end(); }
    MonotonicTime deadline() const { return deadline_; }

   private:
    Session& session_;
    MonotonicTime deadline_;
  };

  const ServerInfo& server() const { return server_; }
  int poll_fd() const { return connection_->fd(); }
  void cancel() { cancel_.request(); }
  void set_listener(std::function<void(const ClientEvent&)> listener);

  /// The connection, opened anew if it ended; what has arrived on it was handled.
  Result<ConnectionPtr> connection(const Call& call);
  /// The connection a lease or reservation lives on; `lease_expired` once it ended.
  static Status check_alive(Connection& connection);
  /// Sends with the call's deadline in the body, waits for the reply.
  Result<protocol::Body> ask(Connection& connection, Outgoing request, const Call& call,
                             PayloadSink sink = {}) const;
  Result<std::uint64_t> send(Connection& connection, Outgoing request, const Call& call,
                             PayloadSink sink = {}) const;

  Result<Namespace> register_model(NamespaceSpec spec, const Call& call);
  Result<Namespace> open_namespace(std::uint32_t id, const Call& call);
  /// The namespace's id on this connection, where it is registered again if need be.
  Result<std::uint32_t> id_of(const Namespace& ns, Connection& connection, const Call& call);
  /// A request of `verb` that selects; ready to send on `connection`.
  Result<Outgoing> selecting(protocol::Verb verb, const Namespace& ns, const Selection& selection,
                             Connection& connection, const Call& call);
  Result<protocol::SelectionView> view_of(const Namespace& ns, const Selection& selection,
                                          Connection& connection, const Call& call);

  /// The lease a reply grants; a reply that has no well-formed one ends the connection.
  Result<Lease> lease_of(const protocol::Body& reply, const ConnectionPtr& connection,
                         std::uint64_t block_bytes) const;

  // The inside of the public handles.
  static LeaseState* state(const Lease& lease) { return lease.state_.get(); }
  static ReservationState* state(const Reservation& reservation) {
    return reservation.state_.get();
  }

 private:
  Session(ClientOptions options, Address address)
      : options_(std::move(options)), address_(std::move(address)) {}
  Status connect_once(MonotonicTime deadline);
  Status ask_registration(Registration& registration, Connection& connection, const Call& call);

  ClientOptions options_;
  Address address_;
  CancelSwitch cancel_;
  ServerInfo server_;
  ConnectionPtr connection_;
  std::uint64_t connection_number_ = 0;
  std::function<void(const ClientEvent&)> listener_;
};

}  // namespace kvstrata::client
