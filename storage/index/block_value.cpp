#include "storage/index/block_value.h"

#include "storage/index/byte_cursor.h"
#include "storage/index/index_keys.h"

namespace kvstrata::storage {

namespace {

constexpr std::uint8_t value_version = 1;
enum BlockValueFlag : std::uint8_t { has_parent = 1, is_pinned = 2 };
constexpr std::uint8_t flags_known = has_parent | is_pinned;

Error corrupt(std::string_view what) {
  return {ErrorKind::corrupt, "index: a value of " + std::string(what) + " breaks its grammar"};
}

void append_location(std::string& out, const RecordLocation& where) {
  append_number(out, where.segment.value);
  append_number(out, where.generation);
  append_number(out, where.offset);
  append_number(out, where.bytes);
}

RecordLocation take_location(ByteCursor& cursor) {
  RecordLocation where;
  where.segment.value = cursor.take<std::uint32_t>();
  where.generation = cursor.take<std::uint32_t>();
  where.offset = cursor.take<std::uint64_t>();
  where.bytes = cursor.take<std::uint64_t>();
  return where;
}

bool sane(const RecordLocation& where) {
  return where.offset % record_alignment == 0 && where.bytes % record_alignment == 0 &&
         where.bytes > 0 && where.bytes <= 1_GiB && where.offset <= 1_GiB;
}

void append_entry(std::string& out, const IndexEntry& entry) {
  std::uint8_t flags = 0;
  if (entry.parent) flags |= has_parent;
  if (entry.pinned) flags |= is_pinned;
  append_number(out, flags);
  append_number(out, entry.codec);
  append_number(out, static_cast<std::uint8_t>(entry.more.size()));
  append_number(out, entry.table.value);
  append_number(out, entry.raw_bytes);
  append_number(out, entry.frame_bytes);
  append_number(out, entry.payload_xxh3);
  append_number(out, entry.created_unix_ms);
  append_number(out, entry.expires_unix_ms);
  append_location(out, entry.where);
  for (const RecordLocation& extent : entry.more) append_location(out, extent);
  if (entry.parent) append_hash(out, *entry.parent);
}

Result<IndexEntry> take_entry(ByteCursor& cursor) {
  IndexEntry entry;
  const auto flags = cursor.take<std::uint8_t>();
  entry.codec = cursor.take<std::uint8_t>();
  const std::size_t more = cursor.take<std::uint8_t>();
  entry.table.value = cursor.take<std::uint32_t>();
  entry.raw_bytes = cursor.take<std::uint64_t>();
  entry.frame_bytes = cursor.take<std::uint64_t>();
  entry.payload_xxh3 = cursor.take<std::uint64_t>();
  entry.created_unix_ms = cursor.take<std::uint64_t>();
  entry.expires_unix_ms = cursor.take<std::uint64_t>();
  entry.where = take_location(cursor);
  bool all_sane = sane(entry.where) && more < extents_max && (flags & ~flags_known) == 0;
  for (std::size_t i = 0; i < more && all_sane; ++i) {
    entry.more.push_back(take_location(cursor));
    all_sane = sane(entry.more.back());
  }
  if ((flags & has_parent) != 0) entry.parent = cursor.take_hash();
  entry.pinned = (flags & is_pinned) != 0;
  if (!all_sane || !cursor.ok() || entry.frame_bytes > entry.record_bytes())
    return corrupt("blocks");
  return entry;
}

bool version_known(ByteCursor& cursor) {
  return cursor.take<std::uint8_t>() == value_version;
}

}  // namespace

std::string block_value(const IndexEntry& entry) {
  KV_CHECK(entry.more.size() < extents_max, "extents are bounded when they are planned");
  std::string out;
  out.reserve(128);
  append_number(out, value_version);
  append_entry(out, entry);
  return out;
}

Result<IndexEntry> parse_block_value(std::string_view text) {
  ByteCursor cursor(text);
  if (!version_known(cursor)) return corrupt("blocks");
  KV_ASSIGN(IndexEntry entry, take_entry(cursor));
  if (!cursor.ok_at_end()) return corrupt("blocks");
  return entry;
}

std::string placement_value(const Placement& placement) {
  std::string out;
  append_number(out, value_version);
  append_number(out, static_cast<std::uint8_t>(placement.kind));
  out += block_key(placement.key);
  return out;
}

Result<Placement> parse_placement_value(std::string_view text) {
  ByteCursor cursor(text);
  const bool known = version_known(cursor);
  Placement placement;
  placement.kind = static_cast<RecordKind>(cursor.take<std::uint8_t>());
  const std::optional<BlockKey> key = parse_block_key(cursor.rest());
  if (!known || !key || placement.kind < RecordKind::block ||
      placement.kind > RecordKind::name_space) {
    return corrupt("placements");
  }
  placement.key = *key;
  return placement;
}

BlockKey record_name(const TableName& table) {
  BlockKey name{table.ns, {}, 0};
  store_le(name.digest.bytes.data(), table.table.value);
  return name;
}

TableName table_of(const BlockKey& record_name) {
  return {record_name.ns, {load_le<std::uint32_t>(record_name.digest.bytes.data())}};
}

BlockKey record_name(NamespaceId ns) {
  return {ns, {}, 0};
}

std::string table_value(const TableValue& table) {
  std::string out;
  append_number(out, value_version);
  append_number(out, table.references);
  append_entry(out, table.entry);
  return out;
}

Result<TableValue> parse_table_value(std::string_view text) {
  ByteCursor cursor(text);
  if (!version_known(cursor)) return corrupt("tables");
  TableValue table;
  table.references = cursor.take<std::uint64_t>();
  KV_ASSIGN(table.entry, take_entry(cursor));
  if (!cursor.ok_at_end()) return corrupt("tables");
  return table;
}

std::string number_value(std::uint64_t number) {
  std::string out;
  append_number(out, value_version);
  append_number(out, number);
  return out;
}

Result<std::uint64_t> parse_number_value(std::string_view text) {
  ByteCursor cursor(text);
  const bool known = version_known(cursor);
  const auto number = cursor.take<std::uint64_t>();
  if (!known || !cursor.ok_at_end()) return corrupt("meta");
  return number;
}

}  // namespace kvstrata::storage
