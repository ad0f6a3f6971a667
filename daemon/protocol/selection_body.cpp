#include "daemon/protocol/selection_body.h"

#include "daemon/protocol/names.h"

namespace kvstrata::protocol {

namespace {

/// Sets every field but the payload's names.
void set_fields(const SelectionView& selection, std::uint64_t count, Body& body) {
  body.set_u64("ns", selection.ns);
  if (selection.group != 0) body.set_u64("group", selection.group);
  body.set_text("by", to_string(selection.by));
  body.set_u64("count", count);
  if (selection.extras != nullptr && !selection.extras->empty()) {
    body.set_indexed_bytes("extras", *selection.extras);
  }
}

}  // namespace

std::string_view to_string(SelectBy by) {
  switch (by) {
    case SelectBy::hash: return "hash";
    case SelectBy::tokens: return "tokens";
    case SelectBy::key: return "key";
  }
  return "unknown";
}

Status encode_selection(const SelectionView& selection, Body& body, ByteVector& payload) {
  switch (selection.by) {
    case SelectBy::hash:
      KV_TRY(check_count(selection.by, selection.hashes.size()));
      set_fields(selection, selection.hashes.size(), body);
      append_hashes(selection.hashes, payload);
      return {};
    case SelectBy::tokens:
      KV_TRY(check_count(selection.by, selection.tokens.size()));
      set_fields(selection, selection.tokens.size(), body);
      append_tokens(selection.tokens, payload);
      return {};
    case SelectBy::key:
      KV_TRY(check_count(selection.by, selection.keys.size()));
      set_fields(selection, selection.keys.size(), body);
      return append_keys(selection.keys, payload);
  }
  return Error(ErrorKind::invalid_argument, "field 'by' must be hash, tokens or key");
}

Result<WireSelection> take_selection(const Body& body, ByteView& payload) {
  WireSelection selection;
  KV_ASSIGN(selection.ns, get_ns(body));
  KV_ASSIGN(selection.group, get_group(body));
  KV_ASSIGN(selection.by, get_by(body));
  KV_ASSIGN(const std::uint32_t count, get_count(body, selection.by));
  switch (selection.by) {
    case SelectBy::hash: KV_TRY(take_hashes(payload, count, selection.hashes)); break;
    case SelectBy::tokens: KV_TRY(take_tokens(payload, count, selection.tokens)); break;
    case SelectBy::key: KV_TRY(take_keys(payload, count, selection.keys)); break;
  }
  KV_ASSIGN(selection.extras, get_extras(body, selection.by));
  return selection;
}

Result<WireSelection> decode_selection(const Body& body, ByteView payload) {
  KV_ASSIGN(WireSelection selection, take_selection(body, payload));
  KV_TRY(check_consumed(payload));
  return selection;
}

Status encode_shards(std::span<const SelectionView> shards, Body& body, ByteVector& payload) {
  if (shards.empty() || shards.size() > shards_per_request_max) {
    return Error(ErrorKind::too_large, "field 'shards' must have 1.." +
                                           std::to_string(shards_per_request_max) + " entries");
  }
  std::vector<Body> bodies(shards.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    KV_TRY(encode_selection(shards[i], bodies[i], payload));
  }
  body.set_bodies("shards", bodies);
  return {};
}

Result<std::vector<WireSelection>> decode_shards(const Body& body, ByteView payload) {
  KV_ASSIGN(const auto bodies, body.get_bodies("shards", shards_per_request_max));
  if (bodies.empty()) {
    return Error(ErrorKind::invalid_argument, "field 'shards' must have at least one entry");
  }
  std::vector<WireSelection> shards;
  for (const Body& entry : bodies) {
    auto shard = take_selection(entry, payload);
    if (!shard) return shard.error().with_context("shard " + std::to_string(shards.size()));
    shards.push_back(std::move(shard).value());
  }
  KV_TRY(check_consumed(payload));
  return shards;
}

}  // namespace kvstrata::protocol
