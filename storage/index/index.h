// An Index reads the typed content of the column families. All changes go through IndexChange.
// A value that breaks its grammar counts as absent: a cache may miss, and reclaim removes it.
//
// Threads: every method may be called from any thread. Lifetime: within its Database's.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "storage/index/block_value.h"
#include "storage/index/database.h"
#include "storage/index/index_keys.h"
#include "storage/index/namespace_value.h"
#include "storage/index/segment_value.h"

namespace kvstrata::storage {

struct PlacedRecord {
  std::uint64_t offset = 0;
  Placement placement;
};

class Index {
 public:
  explicit Index(Database& database) : database_(&database) {}

  Result<std::optional<IndexEntry>> find(const BlockKey& key) const;
  Status find(std::span<const BlockKey> keys, std::span<std::optional<IndexEntry>> entries) const;
  /// The blocks whose parent is one of `parents`.
  Result<std::vector<BlockKey>> children(std::span<const BlockKey> parents) const;
  /// Of each parent, whether it has a child for which `except` is false.
  Result<std::vector<bool>> have_child(std::span<const BlockKey> parents,
                                       const std::function<bool(const BlockKey&)>& except) const;
  /// Up to `limit` entries of a namespace after `after`, in key order.
  Result<std::vector<std::pair<BlockKey, IndexEntry>>> list(NamespaceId ns,
                                                            const std::optional<BlockKey>& after,
                                                            std::size_t limit) const;
  /// The records of a segment the index knows, in order of offset.
  Result<std::vector<PlacedRecord>> placements(SegmentId segment) const;
  /// The blocks that `placed` names and that have an extent in this content of the segment.
  Result<std::vector<std::pair<BlockKey, IndexEntry>>> live_blocks(
      std::span<const PlacedRecord> placed, SegmentId segment, std::uint32_t generation) const;

  // The small families, read whole at start.
  Result<std::vector<std::pair<SegmentId, SegmentValue>>> segments() const;
  Result<std::vector<std::pair<NamespaceId, NamespaceValue>>> namespaces() const;
  Result<std::vector<std::pair<TableName, TableValue>>> tables() const;
  Result<std::vector<std::pair<EpochName, std::uint64_t>>> epochs() const;
  /// A number of `meta`; 0 if it was never written.
  Result<std::uint64_t> number(std::string_view name) const;

  Database& database() const { return *database_; }

 private:
  Status visit_children(
      std::span<const BlockKey> parents,
      const std::function<bool(std::size_t parent, const BlockKey& child)>& visit) const;

  Database* database_;
};

}  // namespace kvstrata::storage
