// FoundBlocks gathers what a scan of old segments found: which records lie where, which namespaces
// and tables they name. It keeps places, not payload.
//
// Threads: plain data of one thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/index_entry.h"
#include "storage/segment/record.h"

namespace kvstrata::storage {

/// A record that a scan found; what else its head says is read again when it is wanted.
struct FoundRecord {
  BlockKey key;  ///< of the old index: its namespace id says nothing elsewhere
  std::uint64_t sequence = 0;
  std::uint64_t put = 0;  ///< the same for all extents of one put of one frame
  RecordLocation where;
  std::uint16_t extent_index = 0, extent_count = 1;
};

/// A namespace by its old id.
struct FoundNamespace {
  NamespaceSpec spec;
  std::uint64_t sequence = 0;
};

class FoundBlocks {
 public:
  using TableKey = std::pair<NamespaceId, TableId>;

  /// Takes a record of any kind. A namespace that doesn't parse is ignored.
  void add(const RecordHead& head);

  const std::map<NamespaceId, FoundNamespace>& namespaces() const { return namespaces_; }
  const std::map<TableKey, FoundRecord>& tables() const { return tables_; }

  /// Each key's newest put of which all extents are there, its records in order of extents; by the
  /// sequence of the first, so that prefixes come before what continues them. Keys of which no put
  /// is whole are counted in `incomplete`.
  std::vector<std::vector<FoundRecord>> newest_puts(std::uint64_t& incomplete);

 private:
  std::vector<FoundRecord> blocks_;
  std::map<NamespaceId, FoundNamespace> namespaces_;
  std::map<TableKey, FoundRecord> tables_;
};

}  // namespace kvstrata::storage
