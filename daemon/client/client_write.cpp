// The writing half of Client, and what keeps or removes blocks.
#include <algorithm>

#include "daemon/client/put.h"
#include "daemon/client/reply.h"

namespace kvstrata {

namespace {

using client::ConnectionPtr;
using client::Outgoing;
using client::Session;
using protocol::Verb;

void set_clear_options(const ClearOptions& options, protocol::Body& body) {
  body.set_text("tier", options.host_only ? "host" : "all");
  body.set_bool("pinned", options.also_pinned);
}

}  // namespace

bool Stored::all_stored() const {
  return std::ranges::all_of(status, [](std::uint8_t code) {
    return code == 0 || code == static_cast<std::uint8_t>(ErrorKind::exists);
  });
}

Result<Reservation> Client::reserve(const Namespace& ns, std::uint32_t count, std::uint64_t bytes,
                                    std::uint16_t group) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  if (at->inline_only()) {
    return Error(ErrorKind::unsupported, "no shared memory on this connection; use put()");
  }
  return client::reserve_slots(*session_, at, ns, count, bytes, group, call);
}

Result<Stored> Client::commit(const Namespace& ns, Reservation reservation, const NewBlocks& names,
                              const PutOptions& options, std::span<const std::uint64_t> lengths) {
  const Session::Call call(*session_);
  client::ReservationState* state = Session::state(reservation);
  if (state == nullptr || state->ids.empty()) {
    return Error(ErrorKind::invalid_argument, "the reservation has no slots left");
  }
  const ConnectionPtr at = state->connection;
  KV_TRY(Session::check_alive(*at));
  const std::size_t blocks =
      names.keys.empty() ? names.tokens.size() / ns.block_tokens() : names.keys.size();
  if (blocks == 0 || blocks > state->ids.size() || (!lengths.empty() && lengths.size() != blocks)) {
    return Error(ErrorKind::invalid_argument, "each block needs a slot, and a length if any has");
  }
  KV_ASSIGN(const std::uint32_t id, session_->id_of(ns, *at, call));
  protocol::Extras extras;
  const client::PutRequest request{.ns = ns, .names = names, .values = {}, .options = options};
  auto view = client::names_of(request, id, 0, blocks, extras);
  view.lengths = lengths;
  KV_ASSIGN(const std::uint64_t sent,
            client::send_commit(*session_, *at, std::move(reservation), blocks, view, call));
  return client::finish_commit(*at, sent, blocks, call);
}

Result<Stored> Client::put(const Namespace& ns, const NewBlocks& names,
                           std::span<const ByteView> blocks, const PutOptions& options) {
  const Session::Call call(*session_);
  return client::put_blocks(*session_,
                            {.ns = ns, .names = names, .values = blocks, .options = options}, call);
}

Result<Stored> Client::put_value(const Namespace& ns, const std::string& key, ByteView value,
                                 const PutOptions& options) {
  return put(ns, {.keys = std::span(&key, 1)}, std::span(&value, 1), options);
}

Result<std::uint64_t> Client::flush(std::optional<std::uint64_t> sequence) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  Outgoing request{.verb = Verb::flush};
  if (sequence) request.body.set_u64("seq", *sequence);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return reply.get_u64("seq", 0, UINT64_MAX);
}

Result<Changed> Client::pin(const Namespace& ns, const Selection& selection, bool pinned) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::pin, ns, selection, *at, call));
  request.body.set_bool("pinned", pinned);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_changed(reply);
}

Result<Changed> Client::set_ttl(const Namespace& ns, const Selection& selection, Milliseconds ttl) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::ttl, ns, selection, *at, call));
  request.body.set_u64("ttl_ms",
                       static_cast<std::uint64_t>(std::max<std::int64_t>(ttl.count(), 0)));
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_changed(reply);
}

Result<Removal> Client::remove(const Namespace& ns, const Selection& selection, bool descendants) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::remove, ns, selection, *at, call));
  request.body.set_bool("descendants", descendants);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_removal(reply);
}

Result<Removal> Client::clear(const ClearOptions& options) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  Outgoing request{.verb = Verb::clear};
  const bool model = options.scope == ClearOptions::Scope::model;
  request.body.set_text("scope", model ? "model" : "tenant");
  if (model) request.body.set_text("fingerprint", options.fingerprint);
  set_clear_options(options, request.body);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_removal(reply);
}

Result<Removal> Client::clear(const Namespace& ns, const ClearOptions& options) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(const std::uint32_t id, session_->id_of(ns, *at, call));
  Outgoing request{.verb = Verb::clear};
  request.body.set_text("scope", "namespace").set_u64("ns", id);
  set_clear_options(options, request.body);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_removal(reply);
}

Result<Removal> Client::clear_prefix(const Namespace& ns, const Selection& selection,
                                     const ClearOptions& options) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::clear, ns, selection, *at, call));
  request.body.set_text("scope", "prefix");
  set_clear_options(options, request.body);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_removal(reply);
}

Result<Removal> Client::evict(std::uint64_t bytes) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  Outgoing request{.verb = Verb::evict};
  request.body.set_u64("bytes", bytes);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_removal(reply);
}

Result<std::uint64_t> Client::bump_weight_epoch(const std::string& fingerprint) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  Outgoing request{.verb = Verb::epoch_bump};
  request.body.set_text("fingerprint", fingerprint);
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return reply.get_u64("epoch", 0, UINT64_MAX);
}

}  // namespace kvstrata
