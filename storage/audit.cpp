#include "storage/audit.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

namespace {

constexpr std::size_t names_max = 1000;

/// What the index says lies in a segment.
struct Found {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
};

class SegmentCount {
 public:
  SegmentCount(const StoreState& state, SegmentId segment, std::uint32_t generation)
      : state_(state), segment_(segment), generation_(generation) {}

  Result<Found> count() {
    KV_ASSIGN(const std::vector<PlacedRecord> placed, state_.index.placements(segment_));
    std::unordered_set<BlockKey> seen;
    std::vector<BlockKey> keys;
    for (const PlacedRecord& record : placed) {
      const BlockKey& key = record.placement.key;
      switch (record.placement.kind) {
        case RecordKind::block:
          if (seen.insert(key).second) keys.push_back(key);
          break;
        case RecordKind::table:
          if (const auto table = state_.catalog.find_table(table_of(key)))
            add(table->entry, record);
          break;
        case RecordKind::name_space:
          if (const auto ns = state_.catalog.find_namespace(key.ns)) add_part(ns->where, record);
          break;
      }
    }
    std::vector<std::optional<IndexEntry>> entries(keys.size());
    KV_TRY(state_.index.find(keys, entries));
    for (const auto& entry : entries) {
      if (entry) add_block(*entry);
    }
    return found_;
  }

 private:
  bool is_here(const RecordLocation& where) const {
    return where.segment == segment_ && where.generation == generation_;
  }
  void add_block(const IndexEntry& entry) {
    if (is_here(entry.where)) {
      ++found_.blocks;
      found_.bytes += entry.where.bytes;
    }
    for (const RecordLocation& where : entry.more) {
      if (is_here(where)) found_.bytes += where.bytes;
    }
  }
  // Of a chain each placement stands for the part at its own offset.
  void add(const IndexEntry& entry, const PlacedRecord& record) {
    add_part(entry.where, record);
    for (const RecordLocation& where : entry.more) add_part(where, record);
  }
  void add_part(const RecordLocation& where, const PlacedRecord& record) {
    if (is_here(where) && where.offset == record.offset) found_.bytes += where.bytes;
  }

  const StoreState& state_;
  const SegmentId segment_;
  const std::uint32_t generation_;
  Found found_;
};

void look_at_files(const StoreState& state, StoreAudit& audit) {
  std::unordered_set<std::string> known;
  for (const auto& [segment, row] : state.segments.rows()) {
    known.insert(segment_file_name(segment));
  }
  std::error_code error;
  for (const auto& file :
       std::filesystem::directory_iterator(state.directory.segments_path(), error)) {
    std::string name = file.path().filename();
    if (known.erase(name) > 0 || name.ends_with(old_segment_suffix)) continue;
    if (audit.foreign_files.size() < names_max) audit.foreign_files.push_back(std::move(name));
  }
  for (const std::string& name : known) {
    if (audit.missing_files.size() < names_max) audit.missing_files.push_back(name);
  }
  std::ranges::sort(audit.foreign_files);
  std::ranges::sort(audit.missing_files);
}

}  // namespace

Result<StoreAudit> audit_store(StoreState& state) {
  StoreAudit audit;
  for (const auto& [segment, unused] : state.segments.rows()) {
    const std::lock_guard lock(state.mutation);
    const std::optional<SegmentValue> row = state.segments.find(segment);
    if (!row) continue;
    KV_ASSIGN(const Found found, SegmentCount(state, segment, row->generation).count());
    ++audit.segments;
    audit.blocks_counted += row->live_blocks;
    audit.bytes_counted += row->live_bytes;
    audit.blocks_found += found.blocks;
    audit.bytes_found += found.bytes;
    const bool same = found.blocks == row->live_blocks && found.bytes == row->live_bytes;
    audit.wrong_segments += same ? 0 : 1;
  }
  look_at_files(state, audit);
  audit.disk_bytes = disk_bytes(state.directory.path());
  audit.budget_bytes = state.sizes.budget_bytes;
  return audit;
}

}  // namespace kvstrata::storage
