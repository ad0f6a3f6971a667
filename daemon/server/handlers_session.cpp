// HELLO, REGISTER, CANCEL, WATCH, CHUNK_UNMAPPED: what concerns the connection itself.
#include <algorithm>

#include "daemon/protocol/model_body.h"
#include "daemon/server/handlers.h"
#include "daemon/server/log.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

constexpr std::size_t client_name_bytes_max = 256;
constexpr std::size_t token_bytes_max = 1024;
constexpr std::size_t chunks_per_request_max = 4096;

Body hello_reply(const Session& session, const Context& context) {
  Body limits;
  limits.set_u64("body", protocol::body_bytes_max)
      .set_u64("payload", protocol::payload_bytes_max)
      .set_u64("blocks", protocol::blocks_per_request_max)
      .set_u64("in_flight", context.limits.in_flight_max);
  Body body;
  body.set_u64("protocol", protocol::version)
      .set_text("server", context.server_name)
      .set_text("tenant", session.caller().tenant_name)
      .set_bool("admin", session.caller().admin)
      .set_text("store", context.store_id)
      .set_bytes("boot", context.boot)
      .set_u64("lease_ms", lease_ms_default)
      .set_body("limits", limits);
  return body;
}

Result<Reply> say_hello(Session& session, const Request& request) {
  if (session.is_authenticated()) {
    return Error(ErrorKind::invalid_argument, "HELLO was said already");
  }
  KV_ASSIGN(const std::uint64_t version, request.body.get_u64("protocol", 0, UINT32_MAX));
  if (version != protocol::version) {
    return Error(ErrorKind::unsupported, "protocol " + std::to_string(version) +
                                             " is not spoken here; this daemon speaks 1");
  }
  KV_ASSIGN(std::string client, request.body.get_text_or("client", "", client_name_bytes_max));
  KV_ASSIGN(const auto token, request.body.find_text("token", token_bytes_max));
  Context& context = session.context();
  const auto tenant = context.tenants.authenticate(token, session.peer());
  if (!tenant) {
    ++context.counters.authentication_failures;
    log::folded(LogLevel::warning, "authentication",
                session.peer().name + ": " + tenant.error().message());
    return tenant.error();
  }
  session.authenticated(*tenant);
  std::replace_if(client.begin(), client.end(), [](unsigned char c) { return c < 0x20; }, '?');
  log::debug("connection " + std::to_string(session.id().value) + " (" + session.peer().name +
             "): \"" + client + "\", tenant " + tenant->name);
  Reply reply;
  reply.body = hello_reply(session, context);
  return reply;
}

}  // namespace

Status handle_hello(const RequestPtr& request) {
  Session& session = *request->session;
  const bool was_authenticated = session.is_authenticated();
  Result<Reply> reply = say_hello(session, *request);
  const bool failed = !reply && !was_authenticated;
  session.answer_now(*request, std::move(reply));
  if (failed) session.close_after_flush();
  return {};
}

Status handle_register(const RequestPtr& request) {
  KV_ASSIGN(NamespaceSpec spec, protocol::decode_register(request->body));
  Session& session = *request->session;
  session.context().engine.register_namespace(
      session.caller(), std::move(spec),
      answer_with<Registered>(request, [](Session&, Registered& registered) {
        Reply reply;
        reply.body.set_u64("ns", registered.ns.value)
            .set_bytes("hash", registered.hash.view())
            .set_u64("epoch", registered.weight_epoch)
            .set_u64s("block_bytes", registered.block_bytes);
        return reply;
      }));
  return {};
}

Status handle_cancel(const RequestPtr& request) {
  KV_ASSIGN(const std::uint64_t id, request->body.get_u64("request", 1, UINT64_MAX));
  Reply reply;
  reply.body.set_bool("cancelled", id != request->id && request->session->cancel(id));
  request->session->answer_now(*request, std::move(reply));
  return {};
}

Status handle_watch(const RequestPtr& request) {
  request->session->watch();
  request->session->answer_now(*request, Reply{});
  return {};
}

Status handle_chunk_unmapped(const RequestPtr& request) {
  KV_ASSIGN(const auto chunks, request->body.get_u64s("chunks", chunks_per_request_max));
  for (const std::uint64_t chunk : chunks) request->session->chunk_unmapped(ChunkId{chunk});
  request->session->answer_now(*request, Reply{});
  return {};
}

}  // namespace kvstrata::daemon
