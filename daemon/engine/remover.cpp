#include "daemon/engine/remover.h"

#include <algorithm>

namespace kvstrata::daemon {

namespace {

void add(Removal& sum, const storage::RemovalCounts& more) {
  sum.removed_blocks += more.removed_blocks;
  sum.removed_bytes += more.removed_bytes;
  sum.kept_pinned += more.kept_pinned;
}

void add(Removal& sum, const Removal& more) {
  sum.removed_blocks += more.removed_blocks;
  sum.removed_bytes += more.removed_bytes;
  sum.kept_pinned += more.kept_pinned;
  sum.kept_leased += more.kept_leased;
}

}  // namespace

std::vector<BlockPtr> Remover::with_descendants(std::span<const BlockKey> keys,
                                                bool descendants) const {
  std::vector<BlockPtr> blocks;
  for (const BlockKey& key : keys) {
    if (BlockPtr block = directory_.find(key)) blocks.push_back(std::move(block));
  }
  if (!descendants) return blocks;
  std::unordered_multimap<Hash256, BlockPtr> by_parent;
  directory_.for_each([&](const BlockPtr& block) {
    if (block->parent) by_parent.emplace(*block->parent, block);
  });
  std::vector<Hash256> parents;
  std::unordered_set<BlockKey> seen;
  for (const BlockKey& key : keys) {
    parents.push_back(key.digest);
    seen.insert(key);
  }
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const auto [first, last] = by_parent.equal_range(parents[i]);
    for (auto at = first; at != last; ++at) {
      if (!seen.insert(at->second->key).second) continue;
      blocks.push_back(at->second);
      parents.push_back(at->second->key.digest);
    }
  }
  return blocks;
}

Removal Remover::forget(std::span<const BlockPtr> blocks, bool also_pinned) {
  Removal removal;
  for (const BlockPtr& block : blocks) {
    if (block->dead) continue;
    const bool has_record = block->entry.has_value();
    if (block->pinned && !also_pinned) {
      removal.kept_pinned += has_record ? 0 : 1;  // the store counts those it has
      continue;
    }
    // A write of the block may be under way; what it leaves on disk must not be found.
    if (block->dirty) {
      block->unwanted = true;
      finder_.doubts().add_tombstone(block->key);
    }
    if (!has_record) {
      ++removal.removed_blocks;
      removal.removed_bytes += block->raw_bytes;
    }
    if (block->holds > (block->dirty ? 1U : 0U)) ++removal.kept_leased;
    Event event;
    event.kind = Event::Kind::removed;
    event.tenant = block->tenant;
    event.ns = block->key.ns;
    event.group = block->key.group;
    event.hashes = {block->key.digest};
    core_.emit(event);
    directory_.forget(block);
  }
  return removal;
}

void Remover::remove(std::vector<BlockKey> keys, bool descendants, bool also_pinned,
                     Done<Removal> done) {
  const std::vector<BlockPtr> blocks = with_descendants(keys, descendants);
  const Removal in_memory = forget(blocks, also_pinned);
  // Until the index has let go of them, what it says of these keys is not believed.
  std::vector<BlockKey> hidden = keys;
  for (const BlockPtr& block : blocks) hidden.push_back(block->key);
  if (!also_pinned) {
    std::erase_if(hidden, [&](const BlockKey& key) { return directory_.find(key) != nullptr; });
  }
  for (const BlockKey& key : hidden) finder_.doubts().add_tombstone(key);
  // Blocks in memory alone may continue some that only the index knows.
  std::vector<BlockPtr> unadmitted;
  if (descendants) {
    directory_.for_each([&](const BlockPtr& block) {
      const bool stays = block->pinned && !also_pinned;
      if (block->unadmitted && block->parent && !stays) unadmitted.push_back(block);
    });
  }
  core_.on_worker([this, keys, descendants,
                   also_pinned] { return core_.store->erase(keys, descendants, also_pinned); },
                  [this, keys, in_memory, also_pinned, hidden = std::move(hidden),
                   unadmitted = std::move(unadmitted),
                   done = std::move(done)](const Result<storage::RemovalCounts>& counts) {
                    for (const BlockKey& key : hidden) finder_.doubts().remove_tombstone(key);
                    if (counts) forget_removed(counts->removed);
                    finder_.doubts().settled();
                    if (!counts) {
                      done(counts.error());
                      return;
                    }
                    Removal removal = in_memory;
                    add(removal, *counts);
                    core_.counters.removed_blocks += removal.removed_blocks;
                    std::vector<BlockKey> left = behind(keys, counts->removed, unadmitted);
                    if (left.empty()) {
                      done(removal);
                      return;
                    }
                    remove(std::move(left), true, also_pinned,
                           [removal, done](Result<Removal> more) {
                             if (more) add(*more, removal);
                             done(std::move(more));
                           });
                  });
}

std::vector<BlockKey> Remover::behind(std::span<const BlockKey> keys,
                                      std::span<const storage::RemovedBlock> removed,
                                      std::vector<BlockPtr> unadmitted) {
  std::unordered_set<BlockKey> gone(keys.begin(), keys.end());
  for (const storage::RemovedBlock& block : removed) gone.insert(block.key);
  std::vector<BlockKey> left;
  for (bool found = true; found;) {
    found = false;
    std::erase_if(unadmitted, [&](const BlockPtr& block) {
      const BlockKey& key = block->key;
      if (block->dead || !gone.contains({key.ns, *block->parent, key.group})) return block->dead;
      gone.insert(key);
      left.push_back(key);
      found = true;
      return true;
    });
  }
  return left;
}

// What continues the keys and was on disk only has no tombstone: a look-up may have found it since.
// Or it was put again since, with other bytes; that one stays.
void Remover::forget_removed(std::span<const storage::RemovedBlock> removed) {
  for (const auto& [key, payload_xxh3] : removed) {
    finder_.doubts().dropped({&key, 1});
    const BlockPtr block = directory_.find(key);
    if (block == nullptr || block->dirty || !block->entry) continue;
    if (block->entry->payload_xxh3 == payload_xxh3) directory_.forget(block);
  }
}

void Remover::clear(std::vector<Namespace*> namespaces, bool also_pinned, Done<Removal> done) {
  std::unordered_set<NamespaceId> ids;
  for (const Namespace* ns : namespaces) ids.insert(ns->record.id);
  std::vector<BlockPtr> blocks;
  directory_.for_each([&](const BlockPtr& block) {
    if (ids.contains(block->key.ns)) blocks.push_back(block);
  });
  const Removal in_memory = forget(blocks, also_pinned);
  for (const NamespaceId id : ids) finder_.doubts().clearing_begins(id, also_pinned);
  core_.on_worker(
      [this, ids, also_pinned]() -> Result<storage::RemovalCounts> {
        storage::RemovalCounts total;
        for (const NamespaceId id : ids) {
          KV_ASSIGN(const auto counts, core_.store->erase_namespace(id, also_pinned));
          total.removed_blocks += counts.removed_blocks;
          total.removed_bytes += counts.removed_bytes;
          total.kept_pinned += counts.kept_pinned;
        }
        return total;
      },
      [this, ids, also_pinned, in_memory,
       done = std::move(done)](const Result<storage::RemovalCounts>& counts) {
        for (const NamespaceId id : ids) finder_.doubts().clearing_ends(id, also_pinned);
        finder_.doubts().settled();
        if (!counts) {
          done(counts.error());
          return;
        }
        Removal removal = in_memory;
        add(removal, *counts);
        core_.counters.removed_blocks += removal.removed_blocks;
        done(removal);
      });
}

Removal Remover::clear_host(const std::vector<Namespace*>& namespaces) {
  std::unordered_set<NamespaceId> ids;
  for (const Namespace* ns : namespaces) ids.insert(ns->record.id);
  std::vector<BlockPtr> blocks;
  directory_.for_each([&](const BlockPtr& block) {
    if (ids.contains(block->key.ns) && block->host == Block::HostCopy::ready) {
      blocks.push_back(block);
    }
  });
  Removal removal;
  for (const BlockPtr& block : blocks) {
    if (block->holds > 0) {
      ++removal.kept_leased;
      continue;
    }
    ++removal.removed_blocks;
    removal.removed_bytes += block->raw_bytes;
    core_.counters.evicted_unadmitted_blocks += block->unadmitted ? 1 : 0;
    directory_.drop_host_copy(block);
  }
  return removal;
}

}  // namespace kvstrata::daemon
