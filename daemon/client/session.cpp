#include "daemon/client/session.h"

#include <algorithm>
#include <thread>

#include "daemon/protocol/model_body.h"

namespace kvstrata::client {

namespace {

using protocol::Body;
using protocol::Verb;

constexpr Milliseconds connect_pause{20};  // between attempts while a daemon starts
constexpr Milliseconds request_timeout_max{600'000};

Status check_options(const ClientOptions& options) {
  if (options.request_timeout < Milliseconds(1) || options.request_timeout > request_timeout_max ||
      options.connect_timeout < Milliseconds(0) || options.connect_timeout > request_timeout_max) {
    return Error(ErrorKind::invalid_argument, "timeouts must be 1 ms..600 s");
  }
  if (options.name.empty() || options.name.size() > 256 || options.token.size() > 1024) {
    return Error(ErrorKind::invalid_argument, "name must have 1..256 bytes, token at most 1,024");
  }
  return {};
}

/// A little less than what is left, so that the daemon's own answer comes before our deadline.
std::uint64_t deadline_ms(MonotonicTime deadline) {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::system().now());
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(left.count() * 9 / 10, 1, 600'000));
}

}  // namespace

Session::Call::Call(Session& session)
    : session_(session), deadline_(Clock::system().now() + session.options_.request_timeout) {
  session_.cancel_.begin();
}

Result<std::unique_ptr<Session>> Session::open(ClientOptions options) {
  KV_TRY(check_options(options));
  KV_ASSIGN(Address address, parse_address(options.address));
  std::unique_ptr<Session> session(new Session(std::move(options), std::move(address)));
  KV_TRY(session->cancel_.open());
  const MonotonicTime deadline = Clock::system().now() + session->options_.connect_timeout;
  for (;;) {
    const auto connected = session->connect_once(deadline);
    if (connected) return session;
    const bool may_come = connected.error().kind() == ErrorKind::unavailable;
    if (!may_come || Clock::system().now() + connect_pause >= deadline) return connected.error();
    std::this_thread::sleep_for(connect_pause);
  }
}

Session::~Session() {
  if (connection_) connection_->close(Error(ErrorKind::unavailable, "the client was closed"));
}

Status Session::connect_once(MonotonicTime deadline) {
  KV_ASSIGN(connection_, Connection::open(address_, options_, cancel_, deadline));
  ++connection_number_;
  server_ = connection_->server();
  connection_->on_event = listener_;
  return {};
}

void Session::set_listener(std::function<void(const ClientEvent&)> listener) {
  listener_ = std::move(listener);
  connection_->on_event = listener_;
}

Result<ConnectionPtr> Session::connection(const Call& call) {
  if (connection_->process_events()) return connection_;
  const MonotonicTime now = Clock::system().now();
  KV_TRY(connect_once(std::min(call.deadline(), now + options_.connect_timeout)));
  if (listener_) {
    KV_TRY(ask(*connection_, {.verb = Verb::watch}, call));
  }
  return connection_;
}

Status Session::check_alive(Connection& connection) {
  if (connection.process_events()) return {};
  return Error(ErrorKind::lease_expired, "the connection it was given on ended");
}

Result<std::uint64_t> Session::send(Connection& connection, Outgoing request, const Call& call,
                                    PayloadSink sink) const {
  request.body.set_u64("deadline_ms", deadline_ms(call.deadline()));
  return connection.send(request, call.deadline(), std::move(sink));
}

Result<Body> Session::ask(Connection& connection, Outgoing request, const Call& call,
                          PayloadSink sink) const {
  KV_ASSIGN(const std::uint64_t id, send(connection, std::move(request), call, std::move(sink)));
  return connection.wait(id, call.deadline());
}

Result<Namespace> Session::register_model(NamespaceSpec spec, const Call& call) {
  KV_TRY(validate(spec.model));
  KV_ASSIGN(const ConnectionPtr at, connection(call));
  auto registration = std::make_shared<Registration>();
  registration->owner = this;
  registration->spec = std::move(spec);
  KV_TRY(ask_registration(*registration, *at, call));
  return Namespace(std::move(registration));
}

Result<Namespace> Session::open_namespace(std::uint32_t id, const Call& call) {
  KV_ASSIGN(const ConnectionPtr at, connection(call));
  KV_ASSIGN(const Body reply, ask(*at, {.verb = Verb::list}, call));
  KV_ASSIGN(const auto listed, reply.get_bodies("namespaces", protocol::body_elements_max));
  for (const Body& entry : listed) {
    KV_ASSIGN(const std::uint64_t number, entry.get_u64("ns", 0, UINT32_MAX));
    if (number != id) continue;
    auto registration = std::make_shared<Registration>();
    KV_ASSIGN(registration->spec, protocol::decode_register(entry));
    KV_ASSIGN(registration->spec.weight_epoch, entry.get_u64("epoch", 0, UINT64_MAX));
    KV_ASSIGN(const ByteView hash, entry.get_bytes_exact("hash", sizeof(Hash256)));
    std::memcpy(registration->hash.bytes.data(), hash.data(), hash.size());
    const ModelDescriptor& model = registration->spec.model;
    for (const LayerGroup& group : model.groups) {
      registration->block_bytes.push_back(block_bytes(model, group));
    }
    registration->owner = this;
    registration->id = id;
    registration->spec.tenant = server_.tenant;
    registration->connection_number = connection_number_;
    return Namespace(std::move(registration));
  }
  return Error(ErrorKind::not_found,
               "there is no namespace " + std::to_string(id) + "; `kvstrata ls` shows them");
}

Status Session::ask_registration(Registration& registration, Connection& connection,
                                 const Call& call) {
  Outgoing request{.verb = Verb::register_model};
  protocol::encode_register(registration.spec, request.body);
  KV_ASSIGN(const Body reply, ask(connection, std::move(request), call));
  KV_ASSIGN(const std::uint64_t id, reply.get_u64("ns", 0, UINT32_MAX));
  KV_ASSIGN(const ByteView hash, reply.get_bytes_exact("hash", sizeof(Hash256)));
  KV_ASSIGN(const std::uint64_t epoch, reply.get_u64("epoch", 0, UINT64_MAX));
  KV_ASSIGN(auto block_bytes, reply.get_u64s("block_bytes", 64, block_bytes_max));
  if (block_bytes.size() != registration.spec.model.groups.size()) {
    return Error(ErrorKind::protocol, "field 'block_bytes' must have an entry for each group");
  }
  const bool first_time = registration.connection_number == 0;
  registration.stale = !first_time && epoch != registration.spec.weight_epoch;
  registration.connection_number = connection_number_;
  if (registration.stale) return {};
  registration.id = static_cast<std::uint32_t>(id);
  std::memcpy(registration.hash.bytes.data(), hash.data(), hash.size());
  registration.block_bytes = std::move(block_bytes);
  registration.spec.tenant = server_.tenant;
  registration.spec.weight_epoch = epoch;
  return {};
}

Result<std::uint32_t> Session::id_of(const Namespace& ns, Connection& connection,
                                     const Call& call) {
  Registration& registration = *ns.registration_;
  if (registration.owner != this) {
    return Error(ErrorKind::invalid_argument, "the namespace was registered by another client");
  }
  if (registration.connection_number != connection_number_) {
    KV_TRY(ask_registration(registration, connection, call));
  }
  if (registration.stale) {
    return Error(ErrorKind::epoch_changed, "the model's weights changed; register it again");
  }
  return registration.id;
}

Result<protocol::SelectionView> Session::view_of(const Namespace& ns, const Selection& selection,
                                                 Connection& connection, const Call& call) {
  KV_ASSIGN(const std::uint32_t id, id_of(ns, connection, call));
  return protocol::SelectionView{.ns = id,
                                 .group = selection.group,
                                 .by = static_cast<protocol::SelectBy>(selection.by),
                                 .hashes = selection.hashes,
                                 .tokens = selection.tokens,
                                 .keys = selection.keys,
                                 .extras = selection.extra_keys};
}

Result<Outgoing> Session::selecting(Verb verb, const Namespace& ns, const Selection& selection,
                                    Connection& connection, const Call& call) {
  KV_ASSIGN(const auto view, view_of(ns, selection, connection, call));
  Outgoing request{.verb = verb};
  KV_TRY(protocol::encode_selection(view, request.body, request.payload));
  return request;
}

Result<Lease> Session::lease_of(const Body& reply, const ConnectionPtr& connection,
                                std::uint64_t block_bytes) const {
  auto lease = decode_lease(reply, connection, block_bytes, options_.request_timeout);
  if (!lease) return connection->fail(Error(ErrorKind::protocol, lease.error().message()));
  return lease;
}

}  // namespace kvstrata::client
