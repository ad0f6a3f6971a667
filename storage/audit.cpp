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

Result<Found> count(const StoreState& state, SegmentId segment, std::uint32_t generation) {
  Found found;
  const auto is_here = [&](const RecordLocation& where) {
    return where.segment == segment && where.generation == generation;
  };
  const auto add_placed = [&](const RecordLocation& where, std::uint64_t offset) {
    if (is_here(where) && where.offset == offset) found.bytes += where.bytes;
  };
  KV_ASSIGN(const std::vector<PlacedRecord> placed, state.index.placements(segment));
  for (const auto& [offset, placement] : placed) {
    if (placement.kind == RecordKind::name_space) {
      const auto ns = state.catalog.find_namespace(placement.key.ns);
      if (ns) add_placed(ns->where, offset);
    } else if (placement.kind == RecordKind::table) {
      const auto table = state.catalog.find_table(table_of(placement.key));
      if (!table) continue;
      add_placed(table->entry.where, offset);
      for (const RecordLocation& where : table->entry.more) add_placed(where, offset);
    }
  }
  KV_ASSIGN(const auto blocks, state.index.live_blocks(placed, segment, generation));
  for (const auto& [key, entry] : blocks) {
    found.blocks += is_here(entry.where) ? 1 : 0;  // counted where its chain begins
    found.bytes += entry.bytes_in(segment, generation);
  }
  return found;
}

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
    KV_ASSIGN(const Found found, count(state, segment, row->generation));
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
