#include "storage/removal.h"

#include <unordered_set>

namespace kvstrata::storage {

namespace {

constexpr std::size_t namespace_batch = 4096;

using KeySet = std::unordered_set<BlockKey>;

// Removes entries that were read under the change's lock.
RemovalCounts remove_entries(IndexChange& change, std::span<const KeyedEntry> entries,
                             bool also_pinned) {
  RemovalCounts counts;
  for (const auto& [key, entry] : entries) {
    if (entry.pinned && !also_pinned) {
      ++counts.kept_pinned;
      continue;
    }
    change.remove_block(key, entry);
    ++counts.removed_blocks;
    counts.removed_bytes += entry.record_bytes();
  }
  return counts;
}

bool is_block(const Append& append) {
  return append.kind == RecordKind::block;
}

// Cancels appends of `keys`, and of what continues them, also through other appends under way.
void cancel_appends(AppendQueue& queue, KeySet keys, bool descendants, bool also_pinned) {
  const auto wanted = [&](const Append& append) {
    const BlockKey& key = append.request.key;
    if (!is_block(append) || (append.request.pinned && !also_pinned)) return false;
    const std::optional<Hash256>& parent = append.request.parent;
    const bool continues = descendants && parent && keys.contains({key.ns, *parent, key.group});
    if (continues) keys.insert(key);
    return continues || keys.contains(key);
  };
  while (queue.cancel(wanted) > 0) {
  }
}

}  // namespace

Result<std::vector<KeyedEntry>> with_descendants(const Index& index,
                                                 std::span<const BlockKey> roots) {
  std::vector<KeyedEntry> found;
  KeySet seen;
  std::vector<BlockKey> level(roots.begin(), roots.end());
  while (!level.empty()) {
    std::erase_if(level, [&](const BlockKey& key) { return !seen.insert(key).second; });
    std::vector<std::optional<IndexEntry>> entries(level.size());
    KV_TRY(index.find(level, entries));
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (entries[i]) found.emplace_back(level[i], std::move(*entries[i]));
    }
    KV_ASSIGN(level, index.children(level));
  }
  return found;
}

Result<std::vector<BlockKey>> remove_blocks_of(const Index& index, IndexChange& change,
                                               SegmentId segment) {
  KV_ASSIGN(const std::vector<PlacedRecord> placed, index.placements(segment));
  std::vector<BlockKey> roots;
  for (const PlacedRecord& record : placed) {
    if (record.placement.kind == RecordKind::block) roots.push_back(record.placement.key);
  }
  KV_ASSIGN(const std::vector<KeyedEntry> entries, with_descendants(index, roots));
  std::vector<BlockKey> removed;
  for (const auto& [key, entry] : entries) {
    change.remove_block(key, entry);
    removed.push_back(key);
  }
  return removed;
}

Result<RemovalCounts> erase_blocks(StoreState& state, AppendQueue& queue,
                                   std::span<const BlockKey> keys, bool descendants,
                                   bool also_pinned) {
  KV_ASSIGN(IndexChange change, IndexChange::begin(state));
  std::vector<KeyedEntry> entries;
  if (descendants) {
    KV_ASSIGN(entries, with_descendants(state.index, keys));
  } else {
    std::vector<std::optional<IndexEntry>> found(keys.size());
    KV_TRY(state.index.find(keys, found));
    KeySet seen;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (found[i] && seen.insert(keys[i]).second) entries.emplace_back(keys[i], *found[i]);
    }
  }
  RemovalCounts counts = remove_entries(change, entries, also_pinned);
  KeySet gone(keys.begin(), keys.end());
  for (const auto& [key, entry] : entries) {
    gone.insert(key);
    if (also_pinned || !entry.pinned) counts.removed.push_back({key, entry.payload_xxh3});
  }
  cancel_appends(queue, std::move(gone), descendants, also_pinned);
  KV_TRY(change.commit());
  return counts;
}

Result<RemovalCounts> erase_namespace(StoreState& state, AppendQueue& queue, NamespaceId ns,
                                      bool also_pinned) {
  RemovalCounts total;
  std::optional<BlockKey> after;
  for (bool more = true; more;) {
    KV_ASSIGN(IndexChange change, IndexChange::begin(state));
    queue.cancel([&](const Append& append) {
      return is_block(append) && append.request.key.ns == ns &&
             (also_pinned || !append.request.pinned);
    });
    KV_ASSIGN(const std::vector<KeyedEntry> entries, state.index.list(ns, after, namespace_batch));
    more = entries.size() == namespace_batch;
    if (!entries.empty()) after = entries.back().first;
    const RemovalCounts counts = remove_entries(change, entries, also_pinned);
    KV_TRY(change.commit());
    total.removed_blocks += counts.removed_blocks;
    total.removed_bytes += counts.removed_bytes;
    total.kept_pinned += counts.kept_pinned;
  }
  return total;
}

}  // namespace kvstrata::storage
