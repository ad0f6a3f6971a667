// A Finder turns what a client names into blocks: keys by hashing, then the directory, then one
// MultiGet on a worker for what the directory does not know. Control thread only.
#pragma once

#include <functional>
#include <vector>

#include "daemon/engine/block_directory.h"
#include "daemon/engine/index_doubts.h"
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
  /// Takes out what was evicted for good since it was found: nobody holds a block while a look-up
  /// waits for the index, or for others.
  static void drop_evicted(Found& found, bool prefix);

  /// Reads the index on a worker; what must not be believed by then is left out. `then` gets an
  /// entry per key, or the error.
  using Entries = std::vector<std::optional<storage::IndexEntry>>;
  void read_index(std::vector<BlockKey> keys, std::function<void(Result<Entries>)> then);

  IndexDoubts& doubts() { return doubts_; }

 private:
  struct Search;
  void continue_search(const std::shared_ptr<Search>& search);
  void take_entries(const std::shared_ptr<Search>& search, const std::vector<std::size_t>& asked,
                    std::span<const std::optional<storage::IndexEntry>> entries);

  Core& core_;
  Namespaces& namespaces_;
  BlockDirectory& directory_;
  IndexDoubts doubts_;
};

}  // namespace kvstrata::daemon
