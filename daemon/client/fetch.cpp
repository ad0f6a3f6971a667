#include "daemon/client/fetch.h"

#include "daemon/client/block_memory.h"
#include "daemon/protocol/error_body.h"
#include "kvstrata/checksum.h"

namespace kvstrata::client {

namespace {

using protocol::BlockRef;
using protocol::Body;

Error broken(const std::string& why) {
  return {ErrorKind::protocol, "from the daemon: " + why};
}

Result<BlockReply> decode_reply(const Body& body, std::size_t blocks_max) {
  BlockReply reply;
  const auto status = body.get_bytes("status", protocol::blocks_per_request_max);
  if (!status) return broken(status.error().message());
  auto refs = protocol::get_refs(body);
  if (!refs) return broken(refs.error().message());
  reply.refs = std::move(refs).value();
  if (status->size() != reply.size() || reply.size() > blocks_max) {
    return broken("fields 'status' and 'refs' have not one entry per block");
  }
  for (std::size_t i = 0; i < reply.size(); ++i) {
    reply.status.push_back(std::to_integer<std::uint8_t>((*status)[i]));
    if (reply.refs[i].bytes > block_bytes_max) return broken("a block of more than 1 GiB");
  }
  return reply;
}

/// Bytes an inline reply brings, checked against what it says of its payload.
Status check_inline_bytes(const BlockReply& reply, std::uint64_t payload_bytes) {
  std::uint64_t sum = 0;  // no overflow: 16,384 blocks of at most 1 GiB
  for (std::size_t i = 0; i < reply.size(); ++i) sum += reply.ok(i) ? reply.refs[i].bytes : 0;
  if (sum == payload_bytes) return {};
  return broken("the payload has not the length of its blocks");
}

Status check_sum(const BlockRef& ref, ByteView bytes) {
  if (xxh3(bytes) == ref.xxh3) return {};
  return Error(ErrorKind::corrupt, "a block did not arrive as it was sent");
}

/// Views of blocks in shared memory.
Result<std::vector<BlockView>> views_in_chunks(const BlockReply& reply, const ChunkTable& chunks) {
  std::vector<BlockView> views;
  views.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) {
    if (!reply.ok(i)) {
      views.emplace_back(reply.error(i));
      continue;
    }
    const BlockRef& ref = reply.refs[i];
    KV_ASSIGN(auto chunk, chunks.find(ref.chunk));
    KV_ASSIGN(const auto place, chunk->locate(ref.offset, ref.bytes));
    views.emplace_back(std::move(chunk), place.slot, ref.generation, place.bytes, ref.xxh3);
  }
  return views;
}

Result<Views> fetch_shared(const Session& session, Connection& connection, Outgoing request,
                           std::size_t blocks_max, const Session::Call& call) {
  Views result;
  KV_ASSIGN(result.body, session.ask(connection, std::move(request), call));
  if (connection.inline_only()) return result;  // a chunk that came could not be mapped
  auto reply = decode_reply(result.body, blocks_max);
  if (!reply) return connection.fail(reply.error());
  auto views = views_in_chunks(*reply, connection.chunks());
  if (!views) return connection.fail(views.error());
  result.blocks = std::move(views).value();
  return result;
}

Result<Views> fetch_inline(const Session& session, Connection& connection, Outgoing request,
                           std::size_t blocks_max, const Session::Call& call) {
  auto memory = std::make_shared<OwnMemory>(0);
  const PayloadSink sink = [&](const Body& body,
                               std::uint64_t payload_bytes) -> Result<std::vector<MutableBytes>> {
    KV_ASSIGN(const BlockReply reply, decode_reply(body, blocks_max));
    KV_TRY(check_inline_bytes(reply, payload_bytes));
    memory = std::make_shared<OwnMemory>(payload_bytes);
    return std::vector<MutableBytes>{memory->all()};
  };
  request.body.set_bool("inline", true);
  Views result;
  KV_ASSIGN(result.body, session.ask(connection, std::move(request), call, sink));
  const auto reply = decode_reply(result.body, blocks_max);
  if (!reply) return connection.fail(reply.error());
  const Status lengths = check_inline_bytes(*reply, memory->all().size());
  if (!lengths) return connection.fail(lengths.error());
  ByteView rest = memory->all();
  for (std::size_t i = 0; i < reply->size(); ++i) {
    if (!reply->ok(i)) {
      result.blocks.emplace_back(reply->error(i));
      continue;
    }
    const ByteView bytes = rest.first(reply->refs[i].bytes);
    rest = rest.subspan(bytes.size());
    const Status sum = check_sum(reply->refs[i], bytes);
    if (sum) {
      result.blocks.emplace_back(memory, 0, 0, bytes, reply->refs[i].xxh3);
    } else {
      result.blocks.emplace_back(sum.error());
    }
  }
  return result;
}

/// Where the blocks of an inline reply go: to the caller, and those that don't fit to nowhere.
class Placement {
 public:
  explicit Placement(std::span<const MutableBytes> outs) : outs_(outs) {}

  Result<std::vector<MutableBytes>> place(const Body& body, std::uint64_t payload_bytes) {
    KV_ASSIGN(const BlockReply reply, decode_reply(body, outs_.size()));
    KV_TRY(check_inline_bytes(reply, payload_bytes));
    std::vector<MutableBytes> places;
    for (std::size_t i = 0; i < reply.size(); ++i) {
      const std::uint64_t bytes = reply.ok(i) ? reply.refs[i].bytes : 0;
      if (bytes <= outs_[i].size()) {
        places.push_back(outs_[i].first(bytes));
      } else {
        places.push_back(nowhere_.emplace_back(bytes).all());
      }
    }
    return places;
  }

 private:
  std::span<const MutableBytes> outs_;
  std::vector<OwnMemory> nowhere_;
};

Error does_not_fit(std::uint64_t bytes, std::uint64_t room) {
  return {ErrorKind::too_large, "the block has " + std::to_string(bytes) +
                                    " bytes, there is room for " + std::to_string(room)};
}

Result<Copies> copy_inline(const Session& session, Connection& connection, Outgoing request,
                           std::span<const MutableBytes> outs, const Session::Call& call) {
  Placement placement(outs);
  request.body.set_bool("inline", true);
  Copies result;
  KV_ASSIGN(result.body, session.ask(connection, std::move(request), call,
                                     [&](const Body& body, std::uint64_t payload_bytes) {
                                       return placement.place(body, payload_bytes);
                                     }));
  const auto reply = decode_reply(result.body, outs.size());
  if (!reply) return connection.fail(reply.error());
  for (std::size_t i = 0; i < reply->size(); ++i) {
    const std::uint64_t bytes = reply->refs[i].bytes;
    result.bytes.push_back(bytes);
    if (!reply->ok(i)) {
      result.status.emplace_back(reply->error(i));
    } else if (bytes > outs[i].size()) {
      result.status.emplace_back(does_not_fit(bytes, outs[i].size()));
    } else {
      result.status.push_back(check_sum(reply->refs[i], outs[i].first(bytes)));
    }
  }
  return result;
}

void add_missing(Copies& copies, std::size_t wanted) {
  copies.bytes.resize(wanted);
  while (copies.status.size() < wanted) {
    copies.status.emplace_back(Error(ErrorKind::not_found, "the block is not stored"));
  }
}

}  // namespace

Error BlockReply::error(std::size_t i) const {
  const ErrorKind kind = protocol::kind_of_status(status[i]);
  return {kind, "block " + std::to_string(i) + ": " + std::string(to_string(kind))};
}

Result<Views> fetch_views(const Session& session, Connection& connection, Outgoing request,
                          std::size_t blocks_max, const Session::Call& call) {
  if (!connection.inline_only()) {
    KV_ASSIGN(Views views, fetch_shared(session, connection, request, blocks_max, call));
    if (!connection.inline_only()) return views;
    connection.give_back(request.verb, views.body);
  }
  return fetch_inline(session, connection, std::move(request), blocks_max, call);
}

Result<Copies> fetch_into(const Session& session, Connection& connection, Outgoing request,
                          std::span<const MutableBytes> outs, const Session::Call& call) {
  Copies copies;
  if (!connection.inline_only()) {
    KV_ASSIGN(Views views, fetch_views(session, connection, std::move(request), outs.size(), call));
    copies.body = std::move(views.body);
    for (std::size_t i = 0; i < views.blocks.size(); ++i) {
      copies.bytes.push_back(views.blocks[i].bytes().size());
      copies.status.push_back(views.blocks[i].copy_out(outs[i]));
    }
  } else {
    KV_ASSIGN(copies, copy_inline(session, connection, std::move(request), outs, call));
  }
  add_missing(copies, outs.size());
  return copies;
}

}  // namespace kvstrata::client
