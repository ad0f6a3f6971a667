// What the handlers of verbs share: reading common fields, and answering from the engine's Done.
// Stateless; control thread. The handlers themselves are in handlers_*.cpp, listed in dispatch.cpp.
#pragma once

#include <concepts>
#include <utility>

#include "daemon/protocol/new_blocks_body.h"
#include "daemon/protocol/selection_body.h"
#include "daemon/server/session.h"

namespace kvstrata::daemon {

inline constexpr std::uint64_t lease_ms_default = 10'000;

/// `lease_ms`, 100..600,000.
Result<Milliseconds> read_lease_period(const protocol::Body& body);
Selection to_selection(protocol::WireSelection wire);
Result<Selection> read_selection(const Request& request);
NewBlocks to_new_blocks(protocol::WireNewBlocks wire);
/// The place of a LIST or VERIFY page: digest ‖ group.
ByteVector encode_place(const BlockKey& key);
Result<std::optional<BlockKey>> read_place(const protocol::Body& body, NamespaceId ns);

void set_lease(protocol::Body& body, const LeaseGrant& grant);  ///< lease, secret, expiry, tiers
void set_removal(protocol::Body& body, const Removal& removal);
void set_bin(protocol::Body& body, std::string_view key, std::span<const std::uint8_t> bytes);
void set_tiers(protocol::Body& body, std::span<const Tier> tiers);

// ---- what an answer nobody waits for any more leaves behind
template <typename T>
void abandon(Session&, const T&) {}
void abandon(Session& session, const LeaseGrant& grant);
void abandon(Session& session, const std::vector<LeaseGrant>& grants);
void abandon(Session& session, const Loaded& loaded);  ///< of GET

/// A Done that answers `request` with what `encode` makes of the engine's value.
template <typename T, typename Encode>
  requires std::convertible_to<std::invoke_result_t<Encode, Session&, T&>, Result<Reply>>
Done<T> answer_with(RequestPtr request, Encode encode) {
  return [request = std::move(request), encode = std::move(encode)](Result<T> result) {
    Session& session = *request->session;
    const bool waits = session.finish(*request);
    if (!waits) {
      if (result) abandon(session, *result);
    } else if (result) {
      session.answer(*request, encode(session, *result));
    } else {
      session.answer(*request, result.error());
    }
  };
}

// ---- the handlers, by file
Status handle_hello(const RequestPtr&);  // handlers_session.cpp
Status handle_register(const RequestPtr&);
Status handle_cancel(const RequestPtr&);
Status handle_watch(const RequestPtr&);
Status handle_chunk_unmapped(const RequestPtr&);
Status handle_lookup(const RequestPtr&);  // handlers_find.cpp
Status handle_group_lookup(const RequestPtr&);
Status handle_exists(const RequestPtr&);
Status handle_renew(const RequestPtr&);
Status handle_lease_attach(const RequestPtr&);
Status handle_release(const RequestPtr&);
Status handle_explain(const RequestPtr&);
Status handle_load(const RequestPtr&);  // handlers_load.cpp
Status handle_get(const RequestPtr&);
Status handle_reserve(const RequestPtr&);  // handlers_write.cpp
Status handle_commit(const RequestPtr&);
Status handle_abort(const RequestPtr&);
Status handle_put(const RequestPtr&);
Status handle_flush(const RequestPtr&);
Status handle_pin(const RequestPtr&);  // handlers_manage.cpp
Status handle_ttl(const RequestPtr&);
Status handle_delete(const RequestPtr&);
Status handle_clear(const RequestPtr&);
Status handle_epoch_bump(const RequestPtr&);
Status handle_evict(const RequestPtr&);
Status handle_stats(const RequestPtr&);  // handlers_stats.cpp
Status handle_list(const RequestPtr&);   // handlers_inspect.cpp
Status handle_inspect(const RequestPtr&);
Status handle_verify(const RequestPtr&);

}  // namespace kvstrata::daemon
