#include "daemon/client/reply.h"

namespace kvstrata::client {

namespace {

using protocol::Body;

constexpr std::size_t text_bytes_max = 4096;
constexpr std::size_t cursor_bytes_max = 256;
constexpr std::size_t entries_max = 16'384;

Result<std::uint32_t> get_u32(const Body& body, std::string_view key) {
  KV_ASSIGN(const std::uint64_t value, body.get_u64(key, 0, UINT32_MAX));
  return static_cast<std::uint32_t>(value);
}

Result<std::optional<ByteVector>> find_cursor(const Body& body) {
  KV_ASSIGN(const auto next, body.find_bytes("next", cursor_bytes_max));
  if (!next) return std::optional<ByteVector>();
  return std::optional(ByteVector(next->begin(), next->end()));
}

std::vector<std::uint8_t> numbers_of(ByteView bytes) {
  std::vector<std::uint8_t> numbers;
  for (const std::byte byte : bytes) numbers.push_back(std::to_integer<std::uint8_t>(byte));
  return numbers;
}

}  // namespace

Result<Existing> decode_existing(const Body& body) {
  Existing existing;
  KV_ASSIGN(existing.blocks, get_u32(body, "blocks"));
  KV_ASSIGN(const ByteView present, body.get_bytes("present", protocol::blocks_per_request_max));
  existing.each = numbers_of(present);
  return existing;
}

Result<Changed> decode_changed(const Body& body) {
  Changed changed;
  KV_ASSIGN(changed.changed, get_u32(body, "changed"));
  KV_ASSIGN(changed.missing, get_u32(body, "missing"));
  return changed;
}

Result<Removal> decode_removal(const Body& body) {
  Removal removal;
  KV_ASSIGN(removal.removed_blocks, body.get_u64("removed_blocks", 0, UINT64_MAX));
  KV_ASSIGN(removal.removed_bytes, body.get_u64("removed_bytes", 0, UINT64_MAX));
  KV_ASSIGN(removal.kept_pinned, body.get_u64("kept_pinned", 0, UINT64_MAX));
  KV_ASSIGN(removal.kept_leased, body.get_u64("kept_leased", 0, UINT64_MAX));
  return removal;
}

Result<Explanation> decode_explanation(const Body& body) {
  Explanation explanation;
  KV_ASSIGN(explanation.blocks, get_u32(body, "blocks"));
  KV_ASSIGN(explanation.wanted, get_u32(body, "wanted"));
  KV_ASSIGN(explanation.reason, body.get_text("reason", text_bytes_max));
  KV_ASSIGN(explanation.field, body.get_text_or("field", "", text_bytes_max));
  KV_ASSIGN(explanation.detail, body.get_text_or("detail", "", text_bytes_max));
  return explanation;
}

Result<Verification> decode_verification(const Body& body) {
  Verification verification;
  KV_ASSIGN(verification.checked, get_u32(body, "checked"));
  KV_ASSIGN(verification.bad, get_u32(body, "bad"));
  KV_ASSIGN(verification.bytes, body.get_u64("bytes", 0, UINT64_MAX));
  KV_ASSIGN(verification.bad_keys, body.get_texts("bad_keys", entries_max, text_bytes_max));
  KV_ASSIGN(verification.next, find_cursor(body));
  return verification;
}

Result<Listing> decode_listing(const Body& body, std::string_view key) {
  Listing listing;
  KV_ASSIGN(const auto entries, body.get_bodies(key, entries_max));
  for (const Body& entry : entries) listing.entries.push_back(entry.to_json());
  KV_ASSIGN(listing.next, find_cursor(body));
  return listing;
}

Result<Stored> decode_stored(const Body& body, std::size_t blocks) {
  Stored stored;
  KV_ASSIGN(stored.sequence, body.get_u64("seq", 0, UINT64_MAX));
  KV_ASSIGN(const ByteView status, body.get_bytes_exact("status", blocks));
  KV_ASSIGN(const ByteView hashes, body.get_bytes_exact("hashes", blocks * sizeof(Hash256)));
  stored.status = numbers_of(status);
  stored.hashes.resize(blocks);
  if (blocks != 0) std::memcpy(stored.hashes.data(), hashes.data(), hashes.size());
  return stored;
}

}  // namespace kvstrata::client
