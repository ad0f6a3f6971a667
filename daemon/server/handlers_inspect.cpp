// LIST, INSPECT, VERIFY: what is stored, for people. STATS is in handlers_stats.cpp.
#include "daemon/protocol/model_body.h"
#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

constexpr std::uint64_t list_blocks_max = 1024;    // stays within a body of 1 MiB
constexpr std::uint64_t verify_blocks_max = 4096;  // a page ends within its deadline

Body describe(const BlockDetails& block) {
  Body body;
  body.set_bytes("hash", block.key.digest.view())
      .set_u64("group", block.key.group)
      .set_u64("raw_bytes", block.raw_bytes)
      .set_u64("frame_bytes", block.frame_bytes)
      .set_text("codec", block.codec)
      .set_bool("in_host", block.in_host)
      .set_bool("on_disk", block.on_disk)
      .set_bool("unadmitted", block.unadmitted)
      .set_bool("pinned", block.pinned)
      .set_u64("leases", block.leases)
      .set_u64("xxh3", block.payload_xxh3)
      .set_u64("created_unix_ms", block.created_unix_ms)
      .set_u64("expires_unix_ms", block.expires_unix_ms);
  if (block.parent) body.set_bytes("parent", block.parent->view());
  if (block.where) {
    body.set_u64("segment", block.where->segment.value)
        .set_u64("segment_generation", block.where->generation)
        .set_u64("offset", block.where->offset)
        .set_u64("record_bytes", block.where->bytes);
  }
  return body;
}

Body describe(const NamespaceDetails& details) {
  const storage::NamespaceRecord& record = details.record;
  Body body;
  body.set_u64("ns", record.id.value)
      .set_bytes("hash", record.hash.view())
      .set_text("tenant", record.tenant)
      .set_u64("epoch", record.spec.weight_epoch)
      .set_u64("epoch_now", details.weight_epoch_now)
      .set_u64("created_unix_ms", record.created_unix_ms);
  protocol::encode_register(record.spec, body);
  return body;
}

Done<Page> answer_page(const RequestPtr& request) {
  return answer_with<Page>(request, [](Session&, Page& page) {
    Reply reply;
    std::vector<Body> blocks;
    blocks.reserve(page.blocks.size());
    for (const BlockDetails& block : page.blocks) blocks.push_back(describe(block));
    reply.body.set_bodies("blocks", blocks);
    if (page.next) reply.body.set_bytes("next", encode_place(*page.next));
    return reply;
  });
}

Reply describe(const storage::StoreAudit& audit) {
  Reply reply;
  reply.body.set_u64("segments", audit.segments)
      .set_u64("wrong_segments", audit.wrong_segments)
      .set_u64("blocks_counted", audit.blocks_counted)
      .set_u64("blocks_found", audit.blocks_found)
      .set_u64("bytes_counted", audit.bytes_counted)
      .set_u64("bytes_found", audit.bytes_found)
      .set_u64("disk_bytes", audit.disk_bytes)
      .set_u64("budget_bytes", audit.budget_bytes)
      .set_texts("missing_files", audit.missing_files)
      .set_texts("foreign_files", audit.foreign_files);
  return reply;
}

Status list_namespaces(const RequestPtr& request) {
  Session& session = *request->session;
  session.context().engine.list_namespaces(
      session.caller(), answer_with<std::vector<NamespaceDetails>>(
                            request, [](Session&, std::vector<NamespaceDetails>& namespaces) {
                              Reply reply;
                              std::vector<Body> described;
                              for (const NamespaceDetails& details : namespaces) {
                                described.push_back(describe(details));
                              }
                              reply.body.set_bodies("namespaces", described);
                              return reply;
                            }));
  return {};
}

}  // namespace

Status handle_list(const RequestPtr& request) {
  KV_ASSIGN(const auto number, request->body.find_u64("ns", 0, UINT32_MAX));
  if (!number) return list_namespaces(request);
  const NamespaceId ns{static_cast<std::uint32_t>(*number)};
  KV_ASSIGN(const auto after, read_place(request->body, ns));
  KV_ASSIGN(const std::uint64_t limit,
            request->body.get_u64_or("limit", list_blocks_max, 1, UINT32_MAX));
  Session& session = *request->session;
  session.context().engine.list_blocks(session.caller(), ns, after,
                                       static_cast<std::size_t>(std::min(limit, list_blocks_max)),
                                       answer_page(request));
  return {};
}

Status handle_inspect(const RequestPtr& request) {
  KV_ASSIGN(const Selection selection, read_selection(*request));
  if (selection.by != SelectBy::hash || selection.hashes.size() != 1) {
    return Error(ErrorKind::invalid_argument, "name exactly one block, by its hash");
  }
  Session& session = *request->session;
  session.context().engine.inspect(
      session.caller(), BlockKey{selection.ns, selection.hashes.front(), selection.group},
      answer_with<BlockDetails>(request, [](Session&, BlockDetails& block) {
        Reply reply;
        reply.body = describe(block);
        if (!block.tokens.empty()) {
          const std::vector<std::uint64_t> tokens(block.tokens.begin(), block.tokens.end());
          reply.body.set_u64s("tokens", tokens);
        }
        if (!block.opaque_key.empty()) {
          reply.body.set_bytes("opaque_key", as_bytes(block.opaque_key));
        }
        return reply;
      }));
  return {};
}

Status handle_verify(const RequestPtr& request) {
  KV_ASSIGN(const auto number, request->body.find_u64("ns", 0, UINT32_MAX));
  if (!number) {
    request->session->context().engine.audit(answer_with<storage::StoreAudit>(
        request, [](Session&, storage::StoreAudit& audit) { return describe(audit); }));
    return {};
  }
  const NamespaceId ns{static_cast<std::uint32_t>(*number)};
  KV_ASSIGN(const auto after, read_place(request->body, ns));
  KV_ASSIGN(const std::uint64_t limit, request->body.get_u64_or("limit", 256, 1, UINT32_MAX));
  Session& session = *request->session;
  session.context().engine.verify(session.caller(), ns, after,
                                  static_cast<std::size_t>(std::min(limit, verify_blocks_max)),
                                  answer_with<Verified>(request, [](Session&, Verified& verified) {
                                    Reply reply;
                                    reply.body.set_u64("checked", verified.checked)
                                        .set_u64("bad", verified.bad)
                                        .set_u64("bytes", verified.bytes)
                                        .set_texts("bad_keys", verified.bad_keys);
                                    if (verified.next)
                                      reply.body.set_bytes("next", encode_place(*verified.next));
                                    return reply;
                                  }));
  return {};
}

}  // namespace kvstrata::daemon
