// RESERVE, COMMIT, ABORT, PUT, FLUSH: how blocks come in.
#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

Reply encode_committed(const Committed& committed) {
  Reply reply;
  reply.body.set_u64("seq", committed.sequence.value);
  set_bin(reply.body, "status", committed.status);
  reply.body.set_bytes("hashes", bytes_of(std::span(committed.hashes)));
  return reply;
}

Done<Committed> answer_committed(const RequestPtr& request) {
  return answer_with<Committed>(
      request, [](Session&, Committed& committed) { return encode_committed(committed); });
}

}  // namespace

Status handle_reserve(const RequestPtr& request) {
  const Body& body = request->body;
  Session& session = *request->session;
  if (!session.caller().shared_memory) {
    return Error(ErrorKind::unsupported, "shared memory needs a Unix socket; use PUT here");
  }
  KV_ASSIGN(const std::uint64_t ns, body.get_u64("ns", 0, UINT32_MAX));
  KV_ASSIGN(const std::uint64_t group, body.get_u64_or("group", 0, 0, UINT16_MAX));
  KV_ASSIGN(const std::uint64_t slots,
            body.get_u64_or("slots", 1, 1, protocol::blocks_per_request_max));
  KV_ASSIGN(const std::uint64_t bytes, body.get_u64_or("bytes", 0, 0, block_bytes_max));
  Engine& engine = session.context().engine;
  KV_ASSIGN(
      const Reserved reserved,
      engine.reserve(session.caller(), NamespaceId{static_cast<std::uint32_t>(ns)},
                     static_cast<std::uint16_t>(group), static_cast<std::uint32_t>(slots), bytes));
  Reply reply;
  protocol::set_slots(reply.body, reserved.slots);
  reply.body.set_u64("expires_in_ms", reserved.expires_in_ms);
  std::vector<std::uint64_t> ids;
  for (const StagingRef& slot : reserved.slots) {
    reply.chunks.push_back(ChunkId{slot.chunk});
    ids.push_back(slot.slot);
  }
  reply.undo = [&session, ids] { (void)session.context().engine.abort(session.caller(), ids); };
  session.answer_now(*request, std::move(reply));
  return {};
}

Status handle_commit(const RequestPtr& request) {
  KV_ASSIGN(protocol::WireNewBlocks wire,
            protocol::decode_commit(request->body, request->payload_bytes()));
  Session& session = *request->session;
  std::vector<std::uint64_t> slots = std::move(wire.slots);
  session.context().engine.commit(session.caller(), to_new_blocks(std::move(wire)),
                                  std::move(slots), answer_committed(request));
  return {};
}

Status handle_abort(const RequestPtr& request) {
  KV_ASSIGN(const auto slots, request->body.get_u64s("slots", protocol::blocks_per_request_max));
  Session& session = *request->session;
  Reply reply;
  reply.body.set_u64("aborted", session.context().engine.abort(session.caller(), slots));
  session.answer_now(*request, std::move(reply));
  return {};
}

Status handle_put(const RequestPtr& request) {
  KV_ASSIGN(protocol::WirePut put, protocol::decode_put(request->body, request->payload_bytes()));
  Session& session = *request->session;
  auto values = request->payload ? request->payload : std::make_shared<const ByteVector>();
  session.context().engine.put(session.caller(), to_new_blocks(std::move(put.blocks)),
                               std::move(values), put.values_offset, answer_committed(request));
  return {};
}

Status handle_flush(const RequestPtr& request) {
  KV_ASSIGN(const auto wanted, request->body.find_u64("seq", 0, UINT64_MAX));
  Session& session = *request->session;
  std::optional<Sequence> sequence;
  if (wanted) sequence = Sequence{*wanted};
  session.context().engine.flush(session.caller(), sequence,
                                 answer_with<Sequence>(request, [](Session&, Sequence& durable) {
                                   Reply reply;
                                   reply.body.set_u64("seq", durable.value);
                                   return reply;
                                 }));
  return {};
}

}  // namespace kvstrata::daemon
