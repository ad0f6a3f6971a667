#include "storage/index/index.h"

#include <unordered_set>

#include "storage/index/byte_cursor.h"

namespace kvstrata::storage {

namespace {

template <typename T>
std::optional<T> if_ok(Result<T> result) {
  if (!result) return std::nullopt;
  return std::move(result).value();
}

}  // namespace

Result<std::optional<IndexEntry>> Index::find(const BlockKey& key) const {
  KV_ASSIGN(const std::optional<std::string> text, database_->get(Column::blocks, block_key(key)));
  if (!text) return std::optional<IndexEntry>();
  return if_ok(parse_block_value(*text));
}

Status Index::find(std::span<const BlockKey> keys,
                   std::span<std::optional<IndexEntry>> entries) const {
  KV_CHECK(keys.size() == entries.size(), "an entry for each key");
  std::vector<std::string> texts;
  texts.reserve(keys.size());
  for (const BlockKey& key : keys) texts.push_back(block_key(key));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<std::optional<std::string>> values(keys.size());
  KV_TRY(database_->multi_get(Column::blocks, views, values));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    entries[i] = values[i] ? if_ok(parse_block_value(*values[i])) : std::nullopt;
  }
  return {};
}

Status Index::visit_children(
    std::span<const BlockKey> parents,
    const std::function<bool(std::size_t parent, const BlockKey& child)>& visit) const {
  std::vector<std::string> prefixes;
  prefixes.reserve(parents.size());
  for (const BlockKey& parent : parents) prefixes.push_back(block_key(parent));
  return database_->scan_each(Column::children, prefixes, [&](std::size_t i, std::string_view key) {
    const std::optional<Hash256> child = parse_child_of(key);
    return !child || visit(i, {parents[i].ns, *child, parents[i].group});
  });
}

Result<std::vector<BlockKey>> Index::children(std::span<const BlockKey> parents) const {
  std::vector<BlockKey> children;
  KV_TRY(visit_children(parents, [&](std::size_t, const BlockKey& child) {
    children.push_back(child);
    return true;
  }));
  return children;
}

Result<std::vector<bool>> Index::have_child(
    std::span<const BlockKey> parents, const std::function<bool(const BlockKey&)>& except) const {
  std::vector<bool> found(parents.size());
  KV_TRY(visit_children(parents, [&](std::size_t i, const BlockKey& child) {
    found[i] = !except(child);
    return !found[i];
  }));
  return found;
}

Result<std::vector<std::pair<BlockKey, IndexEntry>>> Index::list(
    NamespaceId ns, const std::optional<BlockKey>& after, std::size_t limit) const {
  std::vector<std::pair<BlockKey, IndexEntry>> found;
  if (limit == 0) return found;
  const std::string from = after ? block_key(*after) : std::string();
  KV_TRY(database_->scan(Column::blocks, namespace_key(ns), from,
                         [&](std::string_view text, std::string_view value) {
                           const std::optional<BlockKey> key = parse_block_key(text);
                           auto entry = if_ok(parse_block_value(value));
                           if (!key || !entry || (after && *key == *after)) return true;
                           found.emplace_back(*key, std::move(*entry));
                           return found.size() < limit;
                         }));
  return found;
}

Result<std::vector<PlacedRecord>> Index::placements(SegmentId segment) const {
  std::vector<PlacedRecord> placed;
  KV_TRY(database_->scan(Column::placements, segment_key(segment), {},
                         [&](std::string_view key, std::string_view value) {
                           const auto offset = parse_placement_offset(key);
                           const auto placement = if_ok(parse_placement_value(value));
                           if (offset && placement) placed.push_back({*offset, *placement});
                           return true;
                         }));
  return placed;
}

Result<std::vector<std::pair<BlockKey, IndexEntry>>> Index::live_blocks(
    std::span<const PlacedRecord> placed, SegmentId segment, std::uint32_t generation) const {
  std::vector<BlockKey> keys;
  std::unordered_set<BlockKey> seen;
  for (const auto& [offset, placement] : placed) {
    if (placement.kind == RecordKind::block && seen.insert(placement.key).second) {
      keys.push_back(placement.key);
    }
  }
  std::vector<std::optional<IndexEntry>> entries(keys.size());
  KV_TRY(find(keys, entries));
  std::vector<std::pair<BlockKey, IndexEntry>> live;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (entries[i] && entries[i]->bytes_in(segment, generation) > 0) {
      live.emplace_back(keys[i], std::move(*entries[i]));
    }
  }
  return live;
}

Result<std::vector<std::pair<SegmentId, SegmentValue>>> Index::segments() const {
  std::vector<std::pair<SegmentId, SegmentValue>> rows;
  Status grammar;
  KV_TRY(
      database_->scan(Column::segments, {}, {}, [&](std::string_view key, std::string_view text) {
        const auto segment = parse_segment_key(key);
        const auto value = parse_segment_value(text);
        // These rows decide where bytes go, so here nothing may be missing.
        if (!segment || !value) {
          grammar = Error(ErrorKind::corrupt, "index: a broken segment row");
          return false;
        }
        rows.emplace_back(*segment, *value);
        return true;
      }));
  if (!grammar) return grammar.error();
  return rows;
}

Result<std::vector<std::pair<NamespaceId, NamespaceValue>>> Index::namespaces() const {
  std::vector<std::pair<NamespaceId, NamespaceValue>> rows;
  KV_TRY(
      database_->scan(Column::namespaces, {}, {}, [&](std::string_view key, std::string_view text) {
        const auto id = parse_namespace_key(key);
        auto value = if_ok(parse_namespace_value(text));
        if (id && value) rows.emplace_back(*id, std::move(*value));
        return true;
      }));
  return rows;
}

Result<std::vector<std::pair<TableName, TableValue>>> Index::tables() const {
  std::vector<std::pair<TableName, TableValue>> rows;
  KV_TRY(database_->scan(Column::tables, {}, {}, [&](std::string_view key, std::string_view text) {
    const auto name = parse_table_key(key);
    auto value = if_ok(parse_table_value(text));
    if (name && value) rows.emplace_back(*name, std::move(*value));
    return true;
  }));
  return rows;
}

Result<std::vector<std::pair<EpochName, std::uint64_t>>> Index::epochs() const {
  std::vector<std::pair<EpochName, std::uint64_t>> rows;
  KV_TRY(database_->scan(Column::meta, epoch_prefix, {},
                         [&](std::string_view key, std::string_view text) {
                           auto name = parse_epoch_key(key);
                           const auto epoch = if_ok(parse_number_value(text));
                           if (name && epoch) rows.emplace_back(std::move(*name), *epoch);
                           return true;
                         }));
  return rows;
}

Result<std::uint64_t> Index::number(std::string_view name) const {
  KV_ASSIGN(const std::optional<std::string> text, database_->get(Column::meta, name));
  if (!text) return std::uint64_t{0};
  return parse_number_value(*text);
}

}  // namespace kvstrata::storage
