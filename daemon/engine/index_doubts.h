// IndexDoubts knows which index entries must not be believed. Look-ups read the index on workers:
// what one of them brings may be older than a removal that was answered meanwhile, and would bring
// the removed block back.
//
// Control thread only. Memory is bounded by what is removed while one look-up is under way.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "include/impl/block_map.h"
#include "storage/store.h"

namespace kvstrata::daemon {

class IndexDoubts {
 public:
  /// A look-up of the index that is under way, by when it began.
  using Reading = std::uint64_t;
  Reading reading_begins();
  void reading_ends(Reading reading);
  /// Whether the key still has the entry that this look-up read.
  bool believes(Reading reading, const BlockKey& key, const storage::IndexEntry& entry) const;

  /// Until it is taken away again (they are counted), nothing the index says of the key is
  /// believed.
  void add_tombstone(const BlockKey& key) { ++tombstones_[key]; }
  void remove_tombstone(const BlockKey& key);
  bool is_tombstone(const BlockKey& key) const { return tombstones_.contains(key); }

  /// The same for a namespace; its pinned blocks are believed unless they go too.
  void clearing_begins(NamespaceId ns, bool also_pinned);
  void clearing_ends(NamespaceId ns, bool also_pinned);

  /// These are out of the index now.
  void dropped(std::span<const BlockKey> keys);

  /// Whether a block may be written now. Else the index may still be about to lose the key, and
  /// what is written would go with it.
  bool may_write(const BlockKey& key) const;
  /// Whoever ended tombstones or a clearing says so, when done; blocks may be waiting for it.
  void settled() const;
  void on_settled(std::function<void()> callback) { on_settled_ = std::move(callback); }

 private:
  /// Clearings of one namespace: those under way, and when the last one ended.
  struct Clearing {
    std::uint32_t under_way = 0;
    std::uint64_t ended = 0;
  };
  struct Clearings {
    Clearing all, unpinned;
  };

  void mark_removed(const BlockKey& key);
  void forget_what_no_reading_needs();

  std::uint64_t now_ = 0;  ///< rises with every begin and end
  std::set<Reading> readings_;
  BlockMap<std::uint32_t> tombstones_;
  BlockMap<std::uint64_t> removed_;  ///< when; only what a reading under way may have read before
  std::deque<std::pair<std::uint64_t, BlockKey>> removed_in_order_;
  std::unordered_map<NamespaceId, Clearings> clearings_;
  std::function<void()> on_settled_;
};

}  // namespace kvstrata::daemon
