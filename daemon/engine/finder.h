// A Finder turns what a client names into blocks: keys by hashing, then the directory, then one
// MultiGet on a worker for what the directory does not know. Control thread only.
#pragma once

#include <functional>
#include <vector>

#include "daemon/engine/block_directory.h"
#include "daemon/engine/namespaces.h"

namespace kvstrata::daemon {

/// keys[i]'s block, or null for a miss. For a prefix the list ends before the first miss.
using Found = std::vector<BlockPtr>;

class Finder {
 public:
  Finder(Core& core, Namespaces& namespaces, BlockDirectory& directory)
      : core_(core), namespaces_(namespaces), directory_(directory) {}

  /// The keys of a selection, checked against the namespace (its tenant, groups, vocabulary).
  Result<std::vector<BlockKey>> keys_of(const Caller& caller, const Selection& selection);

  void find(std::vector<BlockKey> keys, bool prefix, std::function<void(Result<Found>)> done);

  /// While set, index entries of the key are those of a removed block whose write was in flight.
  void add_tombstone(const BlockKey& key) { ++tombstones_[key]; }
  void remove_tombstone(const BlockKey& key);
  bool is_tombstone(const BlockKey& key) const { return tombstones_.contains(key); }

 private:
  struct Search;
  void continue_search(const std::shared_ptr<Search>& search);
  void take_entries(const std::shared_ptr<Search>& search, const std::vector<std::size_t>& asked,
                    std::span<const std::optional<storage::IndexEntry>> entries);

  Core& core_;
  Namespaces& namespaces_;
  BlockDirectory& directory_;
  BlockMap<std::uint32_t> tombstones_;
};

}  // namespace kvstrata::daemon
