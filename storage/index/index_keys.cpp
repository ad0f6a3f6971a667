#include "storage/index/index_keys.h"

#include "storage/index/byte_cursor.h"

namespace kvstrata::storage {

namespace {

template <typename T>
T swapped(T value) {
  T result = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    result = static_cast<T>((result << 8) | (value & 0xff));
    value = static_cast<T>(value >> 8);
  }
  return result;
}

template <typename T>
void append_be(std::string& out, T value) {
  append_number(out, swapped(value));
}

template <typename T>
T take_be(ByteCursor& cursor) {
  return swapped(cursor.take<T>());
}

}  // namespace

std::string block_key(const BlockKey& key) {
  std::string text;
  text.reserve(block_key_bytes + sizeof(Hash256));
  append_be(text, key.ns.value);
  append_hash(text, key.digest);
  append_be(text, key.group);
  return text;
}

std::optional<BlockKey> parse_block_key(std::string_view text) {
  ByteCursor cursor(text);
  BlockKey key;
  key.ns.value = take_be<std::uint32_t>(cursor);
  key.digest = cursor.take_hash();
  key.group = take_be<std::uint16_t>(cursor);
  if (!cursor.ok_at_end()) return std::nullopt;
  return key;
}

std::string child_key(const BlockKey& parent, const Hash256& child) {
  std::string text = block_key(parent);
  append_hash(text, child);
  return text;
}

std::optional<Hash256> parse_child_of(std::string_view text) {
  ByteCursor cursor(text);
  cursor.take_text(block_key_bytes);
  const Hash256 child = cursor.take_hash();
  if (!cursor.ok_at_end()) return std::nullopt;
  return child;
}

std::string segment_key(SegmentId segment) {
  std::string text;
  append_be(text, segment.value);
  return text;
}

std::optional<SegmentId> parse_segment_key(std::string_view text) {
  ByteCursor cursor(text);
  const SegmentId segment{take_be<std::uint32_t>(cursor)};
  if (!cursor.ok_at_end()) return std::nullopt;
  return segment;
}

std::string placement_key(SegmentId segment, std::uint64_t offset) {
  std::string text = segment_key(segment);
  append_be(text, offset);
  return text;
}

std::optional<std::uint64_t> parse_placement_offset(std::string_view text) {
  ByteCursor cursor(text);
  cursor.take<std::uint32_t>();
  const auto offset = take_be<std::uint64_t>(cursor);
  if (!cursor.ok_at_end()) return std::nullopt;
  return offset;
}

std::string namespace_key(NamespaceId ns) {
  std::string text;
  append_be(text, ns.value);
  return text;
}

std::string table_key(NamespaceId ns, TableId table) {
  std::string text = namespace_key(ns);
  append_be(text, table.value);
  return text;
}

std::optional<NamespaceId> parse_namespace_key(std::string_view text) {
  ByteCursor cursor(text);
  const NamespaceId ns{take_be<std::uint32_t>(cursor)};
  if (!cursor.ok_at_end()) return std::nullopt;
  return ns;
}

std::optional<TableName> parse_table_key(std::string_view text) {
  ByteCursor cursor(text);
  TableName name;
  name.ns.value = take_be<std::uint32_t>(cursor);
  name.table.value = take_be<std::uint32_t>(cursor);
  if (!cursor.ok_at_end()) return std::nullopt;
  return name;
}

std::string epoch_key(std::string_view tenant, std::string_view fingerprint) {
  std::string text(epoch_prefix);
  append_be(text, static_cast<std::uint32_t>(tenant.size()));
  text += tenant;
  text += fingerprint;
  return text;
}

std::optional<EpochName> parse_epoch_key(std::string_view text) {
  if (!text.starts_with(epoch_prefix)) return std::nullopt;
  ByteCursor cursor(text.substr(epoch_prefix.size()));
  const auto tenant_bytes = take_be<std::uint32_t>(cursor);
  const std::string_view tenant = cursor.take_text(tenant_bytes);
  if (!cursor.ok()) return std::nullopt;
  return EpochName{std::string(tenant), std::string(cursor.rest())};
}

}  // namespace kvstrata::storage
