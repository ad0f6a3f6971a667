// LOOKUP, GROUP_LOOKUP, EXISTS, EXPLAIN and what is done with a lease.
#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

constexpr std::size_t leases_per_request_max = 4096;

Result<LeaseId> read_lease(const Body& body) {
  KV_ASSIGN(const std::uint64_t id, body.get_u64("lease", 1, UINT64_MAX));
  return LeaseId{id};
}

}  // namespace

Status handle_lookup(const RequestPtr& request) {
  KV_ASSIGN(Selection selection, read_selection(*request));
  KV_ASSIGN(const Milliseconds period, read_lease_period(request->body));
  Session& session = *request->session;
  session.context().engine.lookup(session.caller(), std::move(selection), period,
                                  answer_with<LeaseGrant>(request, [](Session&, LeaseGrant& grant) {
                                    Reply reply;
                                    reply.body.set_u64("blocks", grant.tiers.size());
                                    set_lease(reply.body, grant);
                                    return reply;
                                  }));
  return {};
}

Status handle_group_lookup(const RequestPtr& request) {
  KV_ASSIGN(auto shards, protocol::decode_shards(request->body, request->payload_bytes()));
  KV_ASSIGN(const Milliseconds period, read_lease_period(request->body));
  std::vector<Selection> selections;
  selections.reserve(shards.size());
  for (protocol::WireSelection& shard : shards) {
    selections.push_back(to_selection(std::move(shard)));
  }
  Session& session = *request->session;
  session.context().engine.group_lookup(
      session.caller(), std::move(selections), period,
      answer_with<std::vector<LeaseGrant>>(
          request, [](Session& waiting, std::vector<LeaseGrant>& grants) {
            Reply reply;
            reply.body.set_u64("blocks", grants.empty() ? 0 : grants.front().tiers.size());
            std::vector<Body> leases(grants.size());
            for (std::size_t i = 0; i < grants.size(); ++i) set_lease(leases[i], grants[i]);
            reply.body.set_bodies("leases", leases);
            reply.undo = [&waiting, grants] { abandon(waiting, grants); };
            return reply;
          }));
  return {};
}

Status handle_exists(const RequestPtr& request) {
  KV_ASSIGN(Selection selection, read_selection(*request));
  Session& session = *request->session;
  session.context().engine.exists(session.caller(), std::move(selection),
                                  answer_with<Present>(request, [](Session&, Present& present) {
                                    Reply reply;
                                    reply.body.set_u64("blocks", present.blocks);
                                    set_bin(reply.body, "present", present.each);
                                    return reply;
                                  }));
  return {};
}

Status handle_explain(const RequestPtr& request) {
  KV_ASSIGN(Selection selection, read_selection(*request));
  Session& session = *request->session;
  session.context().engine.explain(
      session.caller(), std::move(selection),
      answer_with<Explanation>(request, [](Session&, Explanation& explanation) {
        Reply reply;
        reply.body.set_u64("blocks", explanation.blocks)
            .set_u64("wanted", explanation.wanted)
            .set_text("reason", explanation.reason)
            .set_text("detail", explanation.detail);
        if (!explanation.field.empty()) reply.body.set_text("field", explanation.field);
        return reply;
      }));
  return {};
}

Status handle_renew(const RequestPtr& request) {
  KV_ASSIGN(const LeaseId lease, read_lease(request->body));
  KV_ASSIGN(const Milliseconds period, read_lease_period(request->body));
  Session& session = *request->session;
  KV_ASSIGN(const std::uint64_t expires_in_ms,
            session.context().engine.renew(session.caller(), lease, period));
  Reply reply;
  reply.body.set_u64("expires_in_ms", expires_in_ms);
  session.answer_now(*request, std::move(reply));
  return {};
}

Status handle_lease_attach(const RequestPtr& request) {
  KV_ASSIGN(const LeaseId lease, read_lease(request->body));
  hostmem::LeaseSecret secret;
  KV_ASSIGN(const ByteView bytes, request->body.get_bytes_exact("secret", secret.size()));
  std::memcpy(secret.data(), bytes.data(), secret.size());
  Session& session = *request->session;
  KV_ASSIGN(const LeaseGrant grant,
            session.context().engine.attach(session.caller(), lease, secret));
  Reply reply;
  reply.body.set_u64("blocks", grant.tiers.size()).set_u64("expires_in_ms", grant.expires_in_ms);
  set_tiers(reply.body, grant.tiers);
  session.answer_now(*request, std::move(reply));
  return {};
}

Status handle_release(const RequestPtr& request) {
  KV_ASSIGN(const auto leases, request->body.get_u64s("leases", leases_per_request_max));
  std::uint64_t released = 0;
  for (const std::uint64_t lease : leases) {
    if (request->session->release_lease(LeaseId{lease})) ++released;
  }
  Reply reply;
  reply.body.set_u64("released", released).set_u64("not_held", leases.size() - released);
  request->session->answer_now(*request, std::move(reply));
  return {};
}

}  // namespace kvstrata::daemon
