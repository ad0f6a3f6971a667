// PIN, TTL, DELETE, CLEAR, EPOCH_BUMP, EVICT: what changes blocks that are stored.
#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

constexpr std::size_t fingerprint_bytes_max = 128;
constexpr std::uint64_t ttl_ms_max = std::uint64_t{10} * 366 * 24 * 3600 * 1000;  // ten years
constexpr std::uint64_t evict_blocks_max = 1'000'000;

Done<Changed> answer_changed(const RequestPtr& request) {
  return answer_with<Changed>(request, [](Session&, Changed& changed) {
    Reply reply;
    reply.body.set_u64("changed", changed.changed).set_u64("missing", changed.missing);
    return reply;
  });
}

Done<Removal> answer_removal(const RequestPtr& request) {
  return answer_with<Removal>(request, [](Session&, Removal& removal) {
    Reply reply;
    set_removal(reply.body, removal);
    return reply;
  });
}

Status read_clear_scope(const Request& request, ClearRequest& clear) {
  const Body& body = request.body;
  KV_ASSIGN(const std::string scope, body.get_text("scope", 16));
  if (scope == "tenant") {
    if (request.session->caller().admin) return {};
    return Error(ErrorKind::permission_denied,
                 "clearing a whole tenant is for tenants with admin = true");
  }
  if (scope == "model") {
    clear.scope = ClearScope::model;
    KV_ASSIGN(clear.fingerprint, body.get_text("fingerprint", fingerprint_bytes_max));
    return {};
  }
  if (scope == "namespace") {
    clear.scope = ClearScope::ns;
    KV_ASSIGN(const std::uint64_t ns, body.get_u64("ns", 0, UINT32_MAX));
    clear.ns = NamespaceId{static_cast<std::uint32_t>(ns)};
    return {};
  }
  if (scope == "prefix") {
    clear.scope = ClearScope::prefix;
    KV_ASSIGN(clear.prefix, read_selection(request));
    return {};
  }
  return Error(ErrorKind::invalid_argument,
               "field 'scope' must be \"tenant\", \"model\", \"namespace\" or \"prefix\"");
}

/// Evicts block by block until enough went or nothing can. The engine may answer at once or later.
struct EvictLoop : std::enable_shared_from_this<EvictLoop> {
  RequestPtr request;
  std::uint64_t blocks_left = 0;
  Removal total;
  bool over = false;

  void run() {
    Session& session = *request->session;
    while (!over && blocks_left != 0) {
      auto state =
          std::make_shared<int>(0);  // 0: asked, 1: answered at once, 2: answer comes later
      session.context().engine.evict(
          session.caller(), 1, [self = shared_from_this(), state](const Result<Removal>& removal) {
            self->count(removal);
            if (*state == 2) self->run();
            *state = 1;
          });
      if (*state == 0) {
        *state = 2;
        return;
      }
    }
    if (!request->finished) answer_removal(request)(total);
  }

  void count(const Result<Removal>& removal) {
    over = !removal || removal->removed_blocks == 0;
    if (!removal) {
      answer_removal(request)(removal.error());
      return;
    }
    total.removed_blocks += removal->removed_blocks;
    total.removed_bytes += removal->removed_bytes;
    blocks_left -= std::min(blocks_left, removal->removed_blocks);
  }
};

}  // namespace

Status handle_pin(const RequestPtr& request) {
  KV_ASSIGN(Selection selection, read_selection(*request));
  KV_ASSIGN(const bool pinned, request->body.get_bool_or("pinned", true));
  Session& session = *request->session;
  session.context().engine.pin(session.caller(), std::move(selection), pinned,
                               answer_changed(request));
  return {};
}

Status handle_ttl(const RequestPtr& request) {
  KV_ASSIGN(Selection selection, read_selection(*request));
  KV_ASSIGN(const std::uint64_t ttl_ms, request->body.get_u64("ttl_ms", 0, ttl_ms_max));
  Session& session = *request->session;
  session.context().engine.set_ttl(session.caller(), std::move(selection), ttl_ms,
                                   answer_changed(request));
  return {};
}

Status handle_delete(const RequestPtr& request) {
  KV_ASSIGN(Selection selection, read_selection(*request));
  KV_ASSIGN(const bool descendants, request->body.get_bool_or("descendants", true));
  Session& session = *request->session;
  session.context().engine.remove(session.caller(), std::move(selection), descendants,
                                  answer_removal(request));
  return {};
}

Status handle_clear(const RequestPtr& request) {
  ClearRequest clear;
  KV_TRY(read_clear_scope(*request, clear));
  KV_ASSIGN(const std::string tier, request->body.get_text_or("tier", "all", 16));
  if (tier != "all" && tier != "host") {
    return Error(ErrorKind::invalid_argument, "field 'tier' must be \"all\" or \"host\"");
  }
  clear.host_only = tier == "host";
  KV_ASSIGN(clear.also_pinned, request->body.get_bool_or("pinned", false));
  Session& session = *request->session;
  session.context().engine.clear(session.caller(), std::move(clear), answer_removal(request));
  return {};
}

Status handle_epoch_bump(const RequestPtr& request) {
  KV_ASSIGN(std::string fingerprint, request->body.get_text("fingerprint", fingerprint_bytes_max));
  Session& session = *request->session;
  session.context().engine.bump_weight_epoch(
      session.caller(), std::move(fingerprint),
      answer_with<std::uint64_t>(request, [](Session&, std::uint64_t& epoch) {
        Reply reply;
        reply.body.set_u64("epoch", epoch);
        return reply;
      }));
  return {};
}

Status handle_evict(const RequestPtr& request) {
  KV_ASSIGN(const auto bytes, request->body.find_u64("bytes", 0, UINT64_MAX));
  KV_ASSIGN(const auto blocks, request->body.find_u64("blocks", 0, evict_blocks_max));
  if (bytes.has_value() == blocks.has_value()) {
    return Error(ErrorKind::invalid_argument, "give exactly one of the fields 'bytes', 'blocks'");
  }
  Session& session = *request->session;
  if (bytes) {
    session.context().engine.evict(session.caller(), *bytes, answer_removal(request));
    return {};
  }
  const auto loop = std::make_shared<EvictLoop>();
  loop->request = request;
  loop->blocks_left = *blocks;
  loop->run();
  return {};
}

}  // namespace kvstrata::daemon
