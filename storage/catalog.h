// A Catalog is the small part of the index that is kept in memory: namespaces, weight epochs and
// codec tables with the number of blocks that need each.
//
// Threads: safe from any; one lock. Content changes only when an IndexChange was written.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/index/index.h"

namespace kvstrata::storage {

class Catalog {
 public:
  static constexpr std::size_t tables_max = 16;  ///< of a namespace

  Status load(const Index& index);

  std::optional<NamespaceId> find_namespace(const Hash256& hash) const;
  std::optional<NamespaceValue> find_namespace(NamespaceId ns) const;
  std::vector<std::pair<NamespaceId, NamespaceValue>> namespaces() const;
  NamespaceId next_namespace() const;
  void set_namespace(NamespaceId ns, const NamespaceValue& value);

  std::uint64_t epoch(std::string_view tenant, std::string_view fingerprint) const;
  void set_epoch(std::string_view tenant, std::string_view fingerprint, std::uint64_t epoch);

  std::optional<TableValue> find_table(const TableName& name) const;
  std::vector<TableId> tables(NamespaceId ns) const;
  TableId next_table() const;
  void set_table(const TableName& name, const TableValue& value);
  void remove_table(const TableName& name);
  /// A table nobody needs: the oldest without blocks and without appends under way.
  std::optional<TableName> unused_table(NamespaceId ns) const;
  /// Keeps a table while an append that needs it is under way; false if there is none.
  bool begin_use(const TableName& name);
  void end_use(const TableName& name);

 private:
  mutable std::mutex mutex_;
  std::map<NamespaceId, NamespaceValue> namespaces_;
  std::unordered_map<Hash256, NamespaceId> by_hash_;
  std::map<std::pair<std::string, std::string>, std::uint64_t, std::less<>> epochs_;
  std::map<TableName, TableValue> tables_;
  std::map<TableName, std::uint64_t> uses_;
  std::uint32_t next_table_ = 1;
};

/// The number of `meta` that makes table ids of a store unique for ever.
inline constexpr std::string_view next_table_name = "next_table";

}  // namespace kvstrata::storage
