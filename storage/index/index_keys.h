// The keys of the index's column families. Numbers are big-endian, so that byte order is number
// order and everything of one namespace, segment or parent is one range (doc/index-format.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvstrata/id.h"
#include "kvstrata/keys.h"

namespace kvstrata::storage {

inline constexpr std::size_t block_key_bytes = 38;

/// ns u32 ‖ digest ‖ group u16
std::string block_key(const BlockKey& key);
std::optional<BlockKey> parse_block_key(std::string_view text);

/// block_key(parent) ‖ digest of the child, which has the parent's namespace and group.
std::string child_key(const BlockKey& parent, const Hash256& child);
std::optional<Hash256> parse_child_of(std::string_view text);

std::string segment_key(SegmentId segment);
std::optional<SegmentId> parse_segment_key(std::string_view text);

/// segment u32 ‖ offset u64
std::string placement_key(SegmentId segment, std::uint64_t offset);
std::optional<std::uint64_t> parse_placement_offset(std::string_view text);

std::string namespace_key(NamespaceId ns);
std::optional<NamespaceId> parse_namespace_key(std::string_view text);
/// ns u32 ‖ table u32
std::string table_key(NamespaceId ns, TableId table);
struct TableName {
  NamespaceId ns;
  TableId table;

  friend auto operator<=>(const TableName&, const TableName&) = default;
};
std::optional<TableName> parse_table_key(std::string_view text);

/// The key of a tenant's weight epoch: "epoch/" ‖ tenant length u32 ‖ tenant ‖ fingerprint.
inline constexpr std::string_view epoch_prefix = "epoch/";
std::string epoch_key(std::string_view tenant, std::string_view fingerprint);
struct EpochName {
  std::string tenant, fingerprint;
};
std::optional<EpochName> parse_epoch_key(std::string_view text);

}  // namespace kvstrata::storage
