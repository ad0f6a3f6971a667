// LOAD and GET: blocks by shared memory, or in the message straight from the arena.
#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

using protocol::Body;

namespace {

/// How the client wants its blocks.
struct Delivery {
  bool is_inline = false;
  bool keep_lease = true;  ///< else the lease ends with the reply
};

Result<bool> read_inline(const Request& request) {
  KV_ASSIGN(const bool is_inline, request.body.get_bool_or("inline", false));
  if (!is_inline && !request.session->caller().shared_memory) {
    return Error(ErrorKind::unsupported,
                 "shared memory needs a Unix socket; ask with inline = true here");
  }
  return is_inline;
}

/// status, refs, and the blocks themselves. A block that failed has a ref of zeros.
Result<Reply> encode_blocks(const Loaded& loaded, bool is_inline) {
  Reply reply;
  std::vector<std::uint8_t> status;
  std::vector<BlockRef> refs;
  std::uint64_t payload_bytes = 0;
  for (const LoadedBlock& block : loaded.blocks) {
    status.push_back(block.status);
    refs.push_back(block.status == 0 ? block.ref : BlockRef{});
    if (block.status != 0) continue;
    if (!is_inline) {
      reply.chunks.push_back(ChunkId{block.ref.chunk});
      continue;
    }
    payload_bytes += block.ref.bytes;
    if (payload_bytes > protocol::payload_bytes_max) {
      return Error(ErrorKind::too_large, "the blocks exceed 1 GiB; ask for fewer at a time");
    }
    reply.payload.push_back({block.data, static_cast<std::size_t>(block.ref.bytes)});
  }
  set_bin(reply.body, "status", status);
  protocol::set_refs(reply.body, refs);
  if (is_inline && loaded.grant.lease.value != 0) reply.lease = loaded.grant.lease;
  return reply;
}

Result<Reply> encode_get(Session& session, const Loaded& loaded, Delivery delivery) {
  Result<Reply> reply = encode_blocks(loaded, delivery.is_inline);
  if (!reply) {
    abandon(session, loaded.grant);
    return reply;
  }
  reply->body.set_u64("blocks", loaded.grant.tiers.size());
  LeaseGrant grant = loaded.grant;
  reply->release_lease_when_sent = !delivery.keep_lease;
  if (!delivery.keep_lease) {
    grant.lease = {};
    grant.secret = {};
    grant.expires_in_ms = 0;
  }
  set_lease(reply->body, grant);
  reply->undo = [&session, lease = loaded.grant] { abandon(session, lease); };
  return reply;
}

Result<std::vector<std::uint32_t>> read_expected_tokens(const Request& request) {
  const ByteView bytes = request.payload_bytes();
  if (bytes.size() % sizeof(std::uint32_t) != 0) {
    return Error(ErrorKind::invalid_argument, "the payload must be token ids of 4 bytes");
  }
  std::vector<std::uint32_t> tokens(bytes.size() / sizeof(std::uint32_t));
  if (!bytes.empty()) std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

}  // namespace

void abandon(Session& session, const Loaded& loaded) {
  abandon(session, loaded.grant);
}

Status handle_load(const RequestPtr& request) {
  const Body& body = request->body;
  KV_ASSIGN(const std::uint64_t lease, body.get_u64("lease", 1, UINT64_MAX));
  KV_ASSIGN(const std::uint64_t first, body.get_u64_or("first", 0, 0, UINT32_MAX));
  KV_ASSIGN(const std::uint64_t count, body.get_u64("count", 0, protocol::blocks_per_request_max));
  KV_ASSIGN(const bool is_inline, read_inline(*request));
  KV_ASSIGN(auto tokens, read_expected_tokens(*request));
  Session& session = *request->session;
  const auto done = [request, is_inline](Result<Loaded> loaded) {
    if (!request->session->finish(*request)) return;  // the lease is the client's: it stays
    if (!loaded) return request->session->answer(*request, loaded.error());
    request->session->answer(*request, encode_blocks(*loaded, is_inline));
  };
  session.context().engine.load(session.caller(), LeaseId{lease}, static_cast<std::uint32_t>(first),
                                static_cast<std::uint32_t>(count), std::move(tokens), done);
  return {};
}

Status handle_get(const RequestPtr& request) {
  const Body& body = request->body;
  KV_ASSIGN(Selection selection, read_selection(*request));
  KV_ASSIGN(const Milliseconds period, read_lease_period(body));
  KV_ASSIGN(const bool prefix, body.get_bool_or("prefix", selection.by != SelectBy::key));
  Delivery delivery;
  KV_ASSIGN(delivery.is_inline, read_inline(*request));
  // Who has the bytes needs no lease, unless it asked for one.
  delivery.keep_lease = !delivery.is_inline || body.has("lease_ms");
  Session& session = *request->session;
  session.context().engine.get(
      session.caller(), std::move(selection), prefix, period,
      answer_with<Loaded>(request, [delivery](Session& waiting, Loaded& loaded) {
        return encode_get(waiting, loaded, delivery);
      }));
  return {};
}

}  // namespace kvstrata::daemon
