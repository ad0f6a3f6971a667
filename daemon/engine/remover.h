// A Remover takes blocks away, from memory and disk at once: what it removed is missed from the
// moment it answers, also after a restart. Control thread only.
#pragma once

#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include "daemon/engine/block_directory.h"
#include "daemon/engine/finder.h"
#include "daemon/engine/namespaces.h"

namespace kvstrata::daemon {

class Remover {
 public:
  Remover(Core& core, BlockDirectory& directory, Finder& finder)
      : core_(core), directory_(directory), finder_(finder) {}

  /// Removes blocks by key, and, with `descendants`, all that continue them.
  void remove(std::vector<BlockKey> keys, bool descendants, bool also_pinned, Done<Removal> done);
  /// Removes everything of these namespaces.
  void clear(std::vector<Namespace*> namespaces, bool also_pinned, Done<Removal> done);
  /// Drops host copies of these namespaces; records on disk stay.
  Removal clear_host(const std::vector<Namespace*>& namespaces);

 private:
  std::vector<BlockPtr> with_descendants(std::span<const BlockKey> keys, bool descendants) const;
  /// Forgets the blocks in memory. Counts those no record tells of.
  Removal forget(std::span<const BlockPtr> blocks, bool also_pinned);

  void forget_removed(std::span<const storage::RemovedBlock> removed);
  /// Keys of those of `unadmitted` that continue, directly or through others, what was removed.
  static std::vector<BlockKey> behind(std::span<const BlockKey> keys,
                                      std::span<const storage::RemovedBlock> removed,
                                      std::vector<BlockPtr> unadmitted);

  Core& core_;
  BlockDirectory& directory_;
  Finder& finder_;
};

}  // namespace kvstrata::daemon
