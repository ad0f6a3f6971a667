// Removal finds what must go together: a block and everything that continues it.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "storage/append_queue.h"
#include "storage/index_change.h"

namespace kvstrata::storage {

using KeyedEntry = std::pair<BlockKey, IndexEntry>;

/// The stored ones of `roots` and all their stored descendants, each once, ancestors first.
Result<std::vector<KeyedEntry>> with_descendants(const Index& index,
                                                 std::span<const BlockKey> roots);

/// Adds to `change` the removal of all blocks with a record in `segment`, and of what continues
/// them; returns their keys.
Result<std::vector<BlockKey>> remove_blocks_of(const Index& index, IndexChange& change,
                                               SegmentId segment);

/// Removes blocks for a client; appends of them that are under way end as `cancelled`.
Result<RemovalCounts> erase_blocks(StoreState& state, AppendQueue& queue,
                                   std::span<const BlockKey> keys, bool descendants,
                                   bool also_pinned);
Result<RemovalCounts> erase_namespace(StoreState& state, AppendQueue& queue, NamespaceId ns,
                                      bool also_pinned);

}  // namespace kvstrata::storage
