// The reading side of a session and its life. session_send.cpp has the sending side.
#include "daemon/server/session.h"

#include "daemon/protocol/error_body.h"
#include "daemon/server/dispatch.h"
#include "daemon/server/log.h"

namespace kvstrata::daemon {

namespace {

using protocol::Header;
using protocol::Verb;

constexpr std::uint32_t hello_body_bytes_max = 16'384;
constexpr std::uint64_t deadline_ms_default = 30'000;
constexpr std::uint64_t deadline_ms_max = 600'000;
constexpr Milliseconds held_lease_period{600'000};
constexpr Milliseconds held_lease_renewal{120'000};

}  // namespace

Session::Session(std::shared_ptr<Context> context, Transport& transport, ConnectionId id, Peer peer)
    : shared_context_(std::move(context)),
      context_(*shared_context_),
      transport_(&transport),
      peer_(std::move(peer)),
      out_([this](const OutMessage& message) { message_sent(message); }) {
  caller_.connection = id;
  caller_.shared_memory = peer_.is_unix;
}

bool Session::may_read() const {
  return !closing_ && outstanding_ < context_.limits.in_flight_max &&
         out_.queued_bytes() <= context_.limits.queued_bytes_max;
}

/// What a valid header may still do wrong.
Status Session::check_request(const Header& header) const {
  if (header.kind != protocol::MessageKind::request || header.verb == Verb::event) {
    return Error(ErrorKind::protocol, "a client sends requests only");
  }
  if (header.status != 0 || header.descriptors != 0) {
    return Error(ErrorKind::protocol, "a request has neither status nor descriptors");
  }
  if (header.request_id == 0) return Error(ErrorKind::protocol, "request id 0 is for events");
  if (in_flight_.contains(header.request_id)) {
    return Error(ErrorKind::protocol,
                 "request id " + std::to_string(header.request_id) + " is in flight already");
  }
  if (authenticated_) return {};
  if (header.verb != Verb::hello) {
    return Error(ErrorKind::unauthenticated, "the first request must be HELLO");
  }
  if (header.body_bytes > hello_body_bytes_max || header.payload_bytes != 0) {
    return Error(ErrorKind::too_large, "HELLO has at most 16 KiB of body and no payload");
  }
  return {};
}

Status Session::admit_header(const Header& header) {
  if (refused_) {
    ++context_.counters.requests;
    send_error(header.verb, header.request_id, *refused_);
    closing_ = true;
    return *refused_;
  }
  if (const Status valid = protocol::validate(header); !valid) {
    return fail_protocol(header, valid.error());
  }
  if (const Status valid = check_request(header); !valid) {
    return fail_protocol(header, valid.error());
  }
  return {};
}

Status Session::fail_protocol(const Header& header, const Error& error) {
  ++context_.counters.protocol_errors;
  log::folded(LogLevel::warning, "protocol-error",
              "connection " + std::to_string(id().value) + " (" + peer_.name +
                  ") closed: " + error.message());
  send_error(header.verb, header.request_id, error);
  closing_ = true;
  return error;
}

RequestPtr Session::admit_body(const Header& header, ByteView bytes) {
  ++context_.counters.requests;
  const auto refuse = [&](const Error& error) {
    send_error(header.verb, header.request_id, error);
    return nullptr;
  };
  auto body = protocol::Body::parse(bytes);
  if (!body) return refuse(body.error());
  const auto deadline_ms = body->get_u64_or("deadline_ms", deadline_ms_default, 1, deadline_ms_max);
  if (!deadline_ms) return refuse(deadline_ms.error());
  const VerbRule& rule = rule_of(header.verb);
  if (header.payload_bytes > rule.payload_bytes_max) {
    return refuse({ErrorKind::too_large, std::string(to_string(header.verb)) +
                                             " takes a payload of at most " +
                                             std::to_string(rule.payload_bytes_max) + " bytes"});
  }
  if (rule.admin && !caller_.admin) {
    return refuse({ErrorKind::permission_denied,
                   std::string(to_string(header.verb)) + " is for tenants with admin = true"});
  }
  if (context_.draining && !rule.while_draining) {
    return refuse({ErrorKind::unavailable, "the daemon is shutting down"});
  }

  auto request = std::make_shared<Request>();
  request->session = shared_from_this();
  request->verb = header.verb;
  request->id = header.request_id;
  request->body = std::move(*body);
  const MonotonicTime deadline =
      context_.clock.now() + Milliseconds(static_cast<std::int64_t>(*deadline_ms));
  const auto place = context_.deadlines.add(deadline, {weak_from_this(), request->id});
  in_flight_.emplace(request->id, InFlight{request->verb, place});
  ++outstanding_;
  return request;
}

void Session::dispatch(const RequestPtr& request) {
  if (!in_flight_.contains(request->id)) {  // its time was up, or it was cancelled, while arriving
    finish(*request);
    return;
  }
  if (const Status started = rule_of(request->verb).handle(request); !started) {
    answer_now(*request, started.error());
  }
}

bool Session::finish(Request& request) {
  KV_CHECK(!request.finished, "a request is answered once");
  request.finished = true;
  const bool could_read = may_read();
  --outstanding_;
  const auto found = in_flight_.find(request.id);
  const bool waits = found != in_flight_.end() && transport_ != nullptr;
  if (found != in_flight_.end()) {
    context_.deadlines.remove(found->second.deadline);
    in_flight_.erase(found);
  }
  if (!could_read && may_read() && transport_ != nullptr) transport_->want_read();
  return waits;
}

bool Session::cancel(std::uint64_t request_id) {
  const auto found = in_flight_.find(request_id);
  if (found == in_flight_.end()) return false;
  const Verb verb = found->second.verb;
  context_.deadlines.remove(found->second.deadline);
  in_flight_.erase(found);
  ++context_.counters.requests_cancelled;
  send_error(verb, request_id, {ErrorKind::cancelled, "cancelled by the client"});
  return true;
}

void Session::expire_request(std::uint64_t request_id) {
  const auto found = in_flight_.find(request_id);
  KV_CHECK(found != in_flight_.end(), "a deadline without its request");
  const Verb verb = found->second.verb;
  context_.deadlines.remove(found->second.deadline);
  in_flight_.erase(found);
  ++context_.counters.requests_expired;
  send_error(verb, request_id, {ErrorKind::deadline_exceeded, "the request's deadline_ms passed"});
}

void Session::authenticated(const TenantIdentity& tenant) {
  caller_.tenant = tenant.id;
  caller_.tenant_name = tenant.name;
  caller_.admin = tenant.admin;
  authenticated_ = true;
}

Status Session::release_lease(LeaseId lease) {
  const auto held = held_leases_.find(lease);
  if (held == held_leases_.end()) return context_.engine.release(caller_, lease);
  if (held->second.release_when_sent) {
    return Error(ErrorKind::not_found, "the lease was released already");
  }
  held->second.release_when_sent = true;
  return {};
}

bool Session::renew_held_leases() {
  const MonotonicTime now = context_.clock.now();
  for (auto& [lease, held] : held_leases_) {
    if (held.renew_at && now < *held.renew_at) continue;
    if (!context_.engine.renew(caller_, lease, held_lease_period)) return false;
    held.renew_at = now + held_lease_renewal;
  }
  return true;
}

void Session::chunk_unmapped(ChunkId chunk) {
  if (chunks_sent_.erase(chunk) != 0) context_.engine.chunk_unmapped(chunk, id());
}

void Session::closed() {
  if (transport_ == nullptr) return;
  transport_ = nullptr;
  closing_ = true;
  for (const auto& [request_id, waiting] : in_flight_) context_.deadlines.remove(waiting.deadline);
  in_flight_.clear();
  out_.clear();
  held_leases_.clear();
  chunks_sent_.clear();
  if (authenticated_) context_.engine.connection_closed(id());
}

}  // namespace kvstrata::daemon
