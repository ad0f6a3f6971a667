// The reading half of Client.
#include <algorithm>

#include "daemon/client/fetch.h"
#include "daemon/client/reply.h"

namespace kvstrata {

namespace {

using client::ConnectionPtr;
using client::Outgoing;
using client::Session;
using protocol::Verb;

std::uint64_t milliseconds(Milliseconds period) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(period.count(), 0));
}

/// Blocks a selection may find at most.
std::size_t blocks_wanted(const Namespace& ns, const Selection& selection) {
  switch (selection.by) {
    case Selection::By::hash: return selection.hashes.size();
    case Selection::By::tokens: return selection.tokens.size() / ns.block_tokens();
    case Selection::By::key: return selection.keys.size();
  }
  return 0;
}

/// Whether all blocks together might be more than one inline reply can hold.
bool needs_parts(const client::Connection& connection, std::uint64_t block_bytes,
                 std::size_t blocks) {
  return connection.inline_only() && block_bytes != 0 &&
         blocks > protocol::payload_bytes_max / block_bytes;
}

Outgoing load_request(const client::LeaseState& lease, std::uint32_t first, std::uint32_t count,
                      std::span<const std::uint32_t> tokens) {
  Outgoing request{.verb = Verb::load};
  request.body.set_u64("lease", lease.id);
  request.body.set_u64("first", first);
  request.body.set_u64("count", count);
  const ByteView bytes = bytes_of(tokens);
  request.payload.assign(bytes.begin(), bytes.end());
  return request;
}

/// The lease, if [first, first + count) are blocks of it and its connection lives.
Result<client::LeaseState*> check_load(const Lease& lease, std::uint64_t first,
                                       std::uint64_t count) {
  client::LeaseState* state = Session::state(lease);
  if (state == nullptr || first + count > state->tiers.size()) {
    return Error(ErrorKind::invalid_argument, "the lease does not cover these blocks");
  }
  KV_TRY(Session::check_alive(*state->connection));
  return state;
}

/// How many blocks of a lease one request should load.
std::uint32_t load_step(const client::LeaseState& state, std::size_t count) {
  const std::uint64_t most = state.connection->inline_only() && state.block_bytes != 0
                                 ? protocol::payload_bytes_max / state.block_bytes
                                 : protocol::blocks_per_request_max;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(most, count));
}

}  // namespace

Result<Lease> Client::lookup(const Namespace& ns, const Selection& selection, Milliseconds period) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::lookup, ns, selection, *at, call));
  request.body.set_u64("lease_ms", milliseconds(period));
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return session_->lease_of(reply, at, ns.block_bytes(selection.group));
}

Result<std::vector<Lease>> Client::group_lookup(std::span<const GroupMember> members,
                                                Milliseconds period) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  std::vector<protocol::SelectionView> shards;
  for (const GroupMember& member : members) {
    KV_ASSIGN(const auto view, session_->view_of(member.ns, member.selection, *at, call));
    shards.push_back(view);
  }
  Outgoing request{.verb = Verb::group_lookup};
  KV_TRY(protocol::encode_shards(shards, request.body, request.payload));
  request.body.set_u64("lease_ms", milliseconds(period));
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  KV_ASSIGN(const auto granted, reply.get_bodies("leases", members.size()));
  if (granted.size() != members.size()) {
    return at->fail(Error(ErrorKind::protocol, "field 'leases' must have an entry per shard"));
  }
  std::vector<Lease> leases;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint64_t bytes = members[i].ns.block_bytes(members[i].selection.group);
    KV_ASSIGN(Lease lease, session_->lease_of(granted[i], at, bytes));
    leases.push_back(std::move(lease));
  }
  return leases;
}

Result<Existing> Client::exists(const Namespace& ns, const Selection& selection) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::exists, ns, selection, *at, call));
  KV_ASSIGN(const auto reply, session_->ask(*at, std::move(request), call));
  return client::decode_existing(reply);
}

Result<std::vector<BlockView>> Client::load(const Lease& lease, std::uint32_t first,
                                            std::uint32_t count,
                                            std::span<const std::uint32_t> tokens) {
  const Session::Call call(*session_);
  KV_ASSIGN(const client::LeaseState* state, check_load(lease, first, count));
  std::vector<BlockView> views;
  while (views.size() < count) {
    const auto done = static_cast<std::uint32_t>(views.size());
    const std::uint32_t step = load_step(*state, count - done);
    const std::size_t each = tokens.size() / count;  // tokens of a block
    const auto expected = tokens.subspan(done * each, step * each);
    KV_ASSIGN(client::Views part,
              client::fetch_views(*session_, *state->connection,
                                  load_request(*state, first + done, step, expected), step, call));
    if (part.blocks.size() != step) {
      return state->connection->fail(Error(ErrorKind::protocol, "a block of LOAD is missing"));
    }
    std::ranges::move(part.blocks, std::back_inserter(views));
  }
  return views;
}

Result<std::vector<Status>> Client::load_into(const Lease& lease, std::uint32_t first,
                                              std::span<const MutableBytes> outs) {
  const Session::Call call(*session_);
  KV_ASSIGN(const client::LeaseState* state, check_load(lease, first, outs.size()));
  std::vector<Status> statuses;
  while (statuses.size() < outs.size()) {
    const auto done = static_cast<std::uint32_t>(statuses.size());
    const std::uint32_t step = load_step(*state, outs.size() - done);
    KV_ASSIGN(client::Copies part, client::fetch_into(*session_, *state->connection,
                                                      load_request(*state, first + done, step, {}),
                                                      outs.subspan(done, step), call));
    std::ranges::move(part.status, std::back_inserter(statuses));
  }
  return statuses;
}

Result<Fetched> Client::get(const Namespace& ns, const Selection& selection,
                            std::optional<bool> prefix, Milliseconds period) {
  const std::size_t wanted = blocks_wanted(ns, selection);
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  const std::uint64_t block_bytes = ns.block_bytes(selection.group);
  if (needs_parts(*at, block_bytes, wanted)) {
    return Error(ErrorKind::too_large, "so many blocks don't fit one reply; use lookup and load");
  }
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::get, ns, selection, *at, call));
  request.body.set_bool("prefix", prefix.value_or(selection.by != Selection::By::key));
  request.body.set_u64("lease_ms", milliseconds(period));
  KV_ASSIGN(client::Views views,
            client::fetch_views(*session_, *at, std::move(request), wanted, call));
  Fetched fetched;
  KV_ASSIGN(fetched.lease, session_->lease_of(views.body, at, block_bytes));
  fetched.blocks = std::move(views.blocks);
  return fetched;
}

Result<std::vector<Status>> Client::get_into(const Namespace& ns, const Selection& selection,
                                             std::span<const MutableBytes> outs) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  if (blocks_wanted(ns, selection) > outs.size()) {
    return Error(ErrorKind::invalid_argument, "there must be a place for each selected block");
  }
  if (needs_parts(*at, ns.block_bytes(selection.group), outs.size())) {
    return Error(ErrorKind::too_large, "so many blocks don't fit one reply; use lookup and load");
  }
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::get, ns, selection, *at, call));
  KV_ASSIGN(client::Copies copies,
            client::fetch_into(*session_, *at, std::move(request), outs, call));
  at->give_back(Verb::get, copies.body);  // copied out: the lease has done its work
  return std::move(copies.status);
}

Result<Fetched> Client::get_value(const Namespace& ns, const std::string& key) {
  KV_ASSIGN(Fetched fetched, get(ns, Selection::of_keys(std::span(&key, 1))));
  if (fetched.blocks.empty()) return Error(ErrorKind::not_found, "no value under this key");
  KV_TRY(fetched.blocks.front().status());
  return fetched;
}

Result<std::size_t> Client::get_value_into(const Namespace& ns, const std::string& key,
                                           MutableBytes out) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  const auto selection = Selection::of_keys(std::span(&key, 1));
  KV_ASSIGN(Outgoing request, session_->selecting(Verb::get, ns, selection, *at, call));
  KV_ASSIGN(client::Copies copies,
            client::fetch_into(*session_, *at, std::move(request), std::span(&out, 1), call));
  at->give_back(Verb::get, copies.body);
  KV_TRY(copies.status.front());
  return static_cast<std::size_t>(copies.bytes.front());
}

Result<Lease> Client::attach(std::uint64_t lease_id, const std::array<std::byte, 16>& secret) {
  const Session::Call call(*session_);
  KV_ASSIGN(const ConnectionPtr at, session_->connection(call));
  Outgoing request{.verb = Verb::lease_attach};
  request.body.set_u64("lease", lease_id);
  request.body.set_bytes("secret", secret);
  KV_ASSIGN(auto reply, session_->ask(*at, std::move(request), call));
  reply.set_u64("lease", lease_id).set_bytes("secret", secret);  // as LOOKUP says it
  return session_->lease_of(reply, at, 0);
}

}  // namespace kvstrata
