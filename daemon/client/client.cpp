// Client: connecting, namespaces, looking, events. Reading and writing have files of their own.
#include "kvstrata/client.h"

#include "daemon/client/reply.h"
#include "daemon/client/session.h"

namespace kvstrata {

using client::ConnectionPtr;
using client::Outgoing;
using client::Session;
using protocol::Verb;

Client::Client(std::unique_ptr<client::Session> session) : session_(std::move(session)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(ClientOptions options) {
  KV_ASSIGN(auto session, Session::open(std::move(options)));
  return Client(std::move(session));
}

const ServerInfo& Client::server() const {
  return session_->server();
}

Result<Namespace> Client::register_model(NamespaceSpec spec) {
  const Session::Call call(*session_);
  return session_->register_model(std::move(spec), call);
}

Result<Namespace> Client::open_namespace(std::uint32_t id) {
  const Session::Call call(*session_);
  return session_->open_namespace(id, call);
}

Result<std::string> Client::stats() {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(const auto reply, session_->ask(*at, {.verb = Verb::stats}, call));
  return reply.to_json();
}

Result<std::string> Client::audit() {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(const auto reply, session_->ask(*at, {.verb = Verb::verify}, call));
  return reply.to_json();
}

Result<Explanation> Client::explain(const Namespace& ns, const Selection& selection) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::explain, ns, selection, *at, call));
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_explanation(reply);
}

Result<Listing> Client::list_namespaces() {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(const auto reply, session_->ask(*at, {.verb = Verb::list}, call));
  return client::decode_listing(reply, "namespaces");
}

namespace {

void set_page(std::uint32_t ns, std::uint32_t limit, const std::optional<ByteVector>& after,
              protocol::Body& body) {
  body.set_u64("ns", ns).set_u64("limit", limit);
  if (after) body.set_bytes("after", *after);
}

}  // namespace

Result<Listing> Client::list_blocks(const Namespace& ns, std::uint32_t limit,
                                    const std::optional<ByteVector>& after) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(const std::uint32_t id, session_->id_of(ns, *at, call));
  Outgoing request{.verb = Verb::list};
  set_page(id, limit, after, request.body);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_listing(reply, "blocks");
}

Result<std::string> Client::inspect(const Namespace& ns, const Hash256& block,
                                    std::uint16_t group) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  const auto selection = Selection::of_hashes(std::span(&block, 1), group);
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::inspect, ns, selection, *at, call));
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return reply.to_json();
}

Result<Verification> Client::verify(const Namespace& ns, std::uint32_t limit,
                                    const std::optional<ByteVector>& after) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(const std::uint32_t id, session_->id_of(ns, *at, call));
  Outgoing request{.verb = Verb::verify};
  set_page(id, limit, after, request.body);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_verification(reply);
}

Status Client::watch(std::function<void(const ClientEvent&)> on_event) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  session_->set_listener(std::move(on_event));
  KV_TRY(session_->ask(*at, {.verb = Verb::watch}, call));
  return {};
}

Status Client::process_events() {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  return at->say_what_is_due(call.deadline());
}

int Client::poll_fd() const {
  return session_->poll_fd();
}

void Client::cancel() {
  session_->cancel();
}

}  // namespace kvstrata
