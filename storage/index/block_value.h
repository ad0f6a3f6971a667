// The values of the index's column families: version byte, then fixed little-endian fields. Byte
// layouts: doc/index-format.md. A value that breaks its grammar parses as `corrupt`, never throws.
#pragma once

#include <string>
#include <string_view>

#include "kvstrata/result.h"
#include "storage/index/index_keys.h"
#include "storage/index_entry.h"
#include "storage/segment/record.h"

namespace kvstrata::storage {

/// blocks, tables: an IndexEntry.
std::string block_value(const IndexEntry& entry);
Result<IndexEntry> parse_block_value(std::string_view text);

/// placements: which block, table or namespace a record of a segment belongs to.
struct Placement {
  RecordKind kind = RecordKind::block;
  BlockKey key;  ///< of a block; see record_name() for the others

  friend bool operator==(const Placement&, const Placement&) = default;
};
std::string placement_value(const Placement& placement);
Result<Placement> parse_placement_value(std::string_view text);

/// Records of tables and namespaces are named by block keys too, so that all records are handled
/// alike: the table's id in the digest's first four bytes, or the namespace's id alone.
BlockKey record_name(const TableName& table);
TableName table_of(const BlockKey& record_name);
BlockKey record_name(NamespaceId ns);

/// tables: how many blocks need it, and where its record lies.
struct TableValue {
  std::uint64_t references = 0;
  IndexEntry entry;

  friend bool operator==(const TableValue&, const TableValue&) = default;
};
std::string table_value(const TableValue& table);
Result<TableValue> parse_table_value(std::string_view text);

/// meta: a number.
std::string number_value(std::uint64_t number);
Result<std::uint64_t> parse_number_value(std::string_view text);

}  // namespace kvstrata::storage
