#include "daemon/protocol/new_blocks_body.h"

#include "daemon/protocol/names.h"

namespace kvstrata::protocol {

namespace {

constexpr std::string_view by_rule = "field 'by' must be tokens or key for new blocks";

Status encode_identities(const NewBlocksView& blocks, Body& body, ByteVector& payload) {
  if (blocks.by == SelectBy::hash) {
    return Error(ErrorKind::invalid_argument, std::string(by_rule));
  }
  const bool by_tokens = blocks.by == SelectBy::tokens;
  const std::size_t count = by_tokens ? blocks.tokens.size() : blocks.keys.size();
  KV_TRY(check_count(blocks.by, count));
  body.set_text("by", to_string(blocks.by));
  body.set_u64("count", count);
  if (by_tokens) {
    append_tokens(blocks.tokens, payload);
    return {};
  }
  return append_keys(blocks.keys, payload);
}

Status check_arrays(const NewBlocksView& blocks) {
  if (blocks.slots.size() <= blocks_per_request_max &&
      blocks.lengths.size() <= blocks_per_request_max) {
    return {};
  }
  return Error(ErrorKind::too_large,
               "a request brings at most " + std::to_string(blocks_per_request_max) + " blocks");
}

/// All fields but slots; identities are taken off the front of `payload`.
Result<WireNewBlocks> take_new_blocks(const Body& body, ByteView& payload) {
  WireNewBlocks blocks;
  KV_ASSIGN(blocks.ns, get_ns(body));
  KV_ASSIGN(blocks.group, get_group(body));
  KV_ASSIGN(blocks.by, get_by(body));
  if (blocks.by == SelectBy::hash) {
    return Error(ErrorKind::invalid_argument, std::string(by_rule));
  }
  KV_ASSIGN(const auto parent, body.find_bytes_exact("parent", sizeof(Hash256)));
  if (parent) std::memcpy(blocks.parent.emplace().bytes.data(), parent->data(), sizeof(Hash256));
  KV_ASSIGN(const std::uint32_t count, get_count(body, blocks.by));
  if (blocks.by == SelectBy::tokens) {
    KV_TRY(take_tokens(payload, count, blocks.tokens));
  } else {
    KV_TRY(take_keys(payload, count, blocks.keys));
  }
  KV_ASSIGN(blocks.extras, get_extras(body, blocks.by));
  if (body.has("lengths")) {
    KV_ASSIGN(blocks.lengths, body.get_u64s("lengths", blocks_per_request_max, block_bytes_max));
  }
  KV_ASSIGN(blocks.durable, body.get_bool_or("durable", false));
  KV_ASSIGN(blocks.pinned, body.get_bool_or("pinned", false));
  KV_ASSIGN(blocks.ttl_ms, body.find_u64("ttl_ms", 0, UINT64_MAX));
  return blocks;
}

}  // namespace

Status encode_new_blocks(const NewBlocksView& blocks, Body& body, ByteVector& payload) {
  KV_TRY(check_arrays(blocks));
  body.set_u64("ns", blocks.ns);
  if (blocks.group != 0) body.set_u64("group", blocks.group);
  KV_TRY(encode_identities(blocks, body, payload));
  if (blocks.parent) body.set_bytes("parent", blocks.parent->view());
  if (blocks.extras != nullptr && !blocks.extras->empty()) {
    body.set_indexed_bytes("extras", *blocks.extras);
  }
  if (!blocks.lengths.empty()) body.set_u64s("lengths", blocks.lengths);
  if (!blocks.slots.empty()) body.set_u64s("slots", blocks.slots);
  if (blocks.durable) body.set_bool("durable", true);
  if (blocks.pinned) body.set_bool("pinned", true);
  if (blocks.ttl_ms) body.set_u64("ttl_ms", *blocks.ttl_ms);
  return {};
}

Result<WireNewBlocks> decode_commit(const Body& body, ByteView payload) {
  KV_ASSIGN(WireNewBlocks blocks, take_new_blocks(body, payload));
  KV_TRY(check_consumed(payload));
  KV_ASSIGN(blocks.slots, body.get_u64s("slots", blocks_per_request_max));
  return blocks;
}

Result<WirePut> decode_put(const Body& body, ByteView payload) {
  const std::size_t payload_bytes = payload.size();
  WirePut put;
  KV_ASSIGN(put.blocks, take_new_blocks(body, payload));
  put.values_offset = payload_bytes - payload.size();
  std::uint64_t values_bytes = 0;  // no overflow: 16,384 lengths of at most 1 GiB
  for (const std::uint64_t length : put.blocks.lengths) values_bytes += length;
  if (values_bytes != payload.size()) {
    return Error(ErrorKind::invalid_argument, "field 'lengths' sums to " +
                                                  std::to_string(values_bytes) + " bytes, but " +
                                                  std::to_string(payload.size()) + " came");
  }
  return put;
}

}  // namespace kvstrata::protocol
