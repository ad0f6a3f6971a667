#include "daemon/server/handlers.h"

namespace kvstrata::daemon {

namespace {

constexpr std::size_t place_bytes = sizeof(Hash256) + sizeof(std::uint16_t);

SelectBy to_select_by(protocol::SelectBy by) {
  switch (by) {
    case protocol::SelectBy::hash: return SelectBy::hash;
    case protocol::SelectBy::tokens: return SelectBy::tokens;
    case protocol::SelectBy::key: return SelectBy::key;
  }
  return SelectBy::hash;
}

}  // namespace

Result<Milliseconds> read_lease_period(const protocol::Body& body) {
  KV_ASSIGN(const std::uint64_t ms, body.get_u64_or("lease_ms", lease_ms_default, 100, 600'000));
  return Milliseconds(static_cast<std::int64_t>(ms));
}

Selection to_selection(protocol::WireSelection wire) {
  Selection selection;
  selection.ns = NamespaceId{wire.ns};
  selection.group = wire.group;
  selection.by = to_select_by(wire.by);
  selection.hashes = std::move(wire.hashes);
  selection.tokens = std::move(wire.tokens);
  selection.keys = std::move(wire.keys);
  selection.extras = std::move(wire.extras);
  return selection;
}

Result<Selection> read_selection(const Request& request) {
  KV_ASSIGN(protocol::WireSelection wire,
            protocol::decode_selection(request.body, request.payload_bytes()));
  return to_selection(std::move(wire));
}

NewBlocks to_new_blocks(protocol::WireNewBlocks wire) {
  NewBlocks blocks;
  blocks.ns = NamespaceId{wire.ns};
  blocks.group = wire.group;
  blocks.by = to_select_by(wire.by);
  blocks.parent = wire.parent;
  blocks.tokens = std::move(wire.tokens);
  blocks.keys = std::move(wire.keys);
  blocks.extras = std::move(wire.extras);
  blocks.lengths = std::move(wire.lengths);
  blocks.durable = wire.durable;
  blocks.pinned = wire.pinned;
  blocks.ttl_ms = wire.ttl_ms;
  return blocks;
}

ByteVector encode_place(const BlockKey& key) {
  ByteVector bytes(key.digest.bytes.begin(), key.digest.bytes.end());
  append_le(bytes, key.group);
  return bytes;
}

Result<std::optional<BlockKey>> read_place(const protocol::Body& body, NamespaceId ns) {
  KV_ASSIGN(const auto bytes, body.find_bytes_exact("after", place_bytes));
  if (!bytes) return std::optional<BlockKey>();
  BlockKey key;
  key.ns = ns;
  std::memcpy(key.digest.bytes.data(), bytes->data(), sizeof(Hash256));
  key.group = load_le<std::uint16_t>(bytes->data() + sizeof(Hash256));
  return std::optional<BlockKey>(key);
}

void set_bin(protocol::Body& body, std::string_view key, std::span<const std::uint8_t> bytes) {
  body.set_bytes(key, bytes_of(bytes));
}

void set_tiers(protocol::Body& body, std::span<const Tier> tiers) {
  body.set_bytes("tiers", bytes_of(tiers));
}

void set_lease(protocol::Body& body, const LeaseGrant& grant) {
  body.set_u64("lease", grant.lease.value);
  body.set_bytes("secret", grant.secret);
  body.set_u64("expires_in_ms", grant.expires_in_ms);
  set_tiers(body, grant.tiers);
}

void set_removal(protocol::Body& body, const Removal& removal) {
  body.set_u64("removed_blocks", removal.removed_blocks)
      .set_u64("removed_bytes", removal.removed_bytes)
      .set_u64("kept_pinned", removal.kept_pinned)
      .set_u64("kept_leased", removal.kept_leased);
}

void abandon(Session& session, const LeaseGrant& grant) {
  if (grant.lease.value != 0) (void)session.context().engine.release(session.caller(), grant.lease);
}

void abandon(Session& session, const std::vector<LeaseGrant>& grants) {
  for (const LeaseGrant& grant : grants) abandon(session, grant);
}

}  // namespace kvstrata::daemon
