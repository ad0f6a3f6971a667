#include "storage/index_change.h"

#include <algorithm>

namespace kvstrata::storage {

Result<IndexChange> IndexChange::begin(StoreState& state) {
  IndexChange change(state);
  if (state.index_failed) KV_TRY(recover(state));
  return change;
}

// What the failed batch held may be in the index or not; memory is read anew to agree with it.
Status IndexChange::recover(StoreState& state) {
  if (const std::optional<Error> refusal = state.health.refusal()) return *refusal;
  // Opened in another directory, the index would begin anew there, or be marked as broken.
  if (const Status in_place = state.directory.check_in_place(); !in_place) {
    state.health.failed(in_place.error());
    return in_place;
  }
  Status status = state.database->recover();
  if (status) {
    const auto rows = state.index.segments();
    if (rows) {
      state.segments.load(*rows);
    } else {
      status = rows.error();
    }
  }
  if (status) status = state.catalog.load(state.index);
  if (!status) {
    state.note_index_error(status.error());
    state.health.failed(status.error());
    return status;
  }
  state.index_failed = false;
  return {};
}

SegmentValue& IndexChange::segment(SegmentId segment) {
  const auto found = segments_.find(segment);
  if (found != segments_.end()) return found->second;
  return segments_[segment] = state_->segments.find(segment).value_or(SegmentValue{});
}

SegmentValue* IndexChange::known_segment(const RecordLocation& where) {
  if (removed_segments_.contains(where.segment)) return nullptr;
  if (!segments_.contains(where.segment) && !state_->segments.find(where.segment)) return nullptr;
  SegmentValue& value = segment(where.segment);
  return value.generation == where.generation ? &value : nullptr;
}

void IndexChange::place(const Placement& placement, const IndexEntry& entry) {
  const auto place_one = [&](const RecordLocation& where) {
    SegmentValue* row = known_segment(where);
    KV_CHECK(row != nullptr, "a record lies in a segment of its generation");
    row->live_bytes += where.bytes;
    batch_.put(Column::placements, placement_key(where.segment, where.offset),
               placement_value(placement));
    return row;
  };
  SegmentValue* first = place_one(entry.where);
  if (placement.kind == RecordKind::block) ++first->live_blocks;
  for (const RecordLocation& extent : entry.more) place_one(extent);
}

void IndexChange::unplace(RecordKind kind, const IndexEntry& entry) {
  const auto unplace_one = [&](const RecordLocation& where, bool counts) {
    // A segment with another generation counts other records, and has other placements.
    SegmentValue* row = known_segment(where);
    if (row == nullptr) return;
    row->live_bytes -= std::min(row->live_bytes, where.bytes);
    if (counts) row->live_blocks -= std::min<std::uint64_t>(row->live_blocks, 1);
    batch_.remove(Column::placements, placement_key(where.segment, where.offset));
  };
  unplace_one(entry.where, kind == RecordKind::block);
  for (const RecordLocation& extent : entry.more) unplace_one(extent, false);
}

void IndexChange::put_block(const BlockKey& key, const IndexEntry& entry) {
  place({RecordKind::block, key}, entry);
  batch_.put(Column::blocks, block_key(key), block_value(entry));
  if (entry.parent) {
    batch_.put(Column::children, child_key({key.ns, *entry.parent, key.group}, key.digest), {});
  }
  if (TableValue* table = known_table({key.ns, entry.table})) ++table->references;
}

void IndexChange::remove_block(const BlockKey& key, const IndexEntry& entry) {
  if (!removed_blocks_.insert(key).second) return;
  unplace(RecordKind::block, entry);
  batch_.remove(Column::blocks, block_key(key));
  if (entry.parent) {
    batch_.remove(Column::children, child_key({key.ns, *entry.parent, key.group}, key.digest));
  }
  if (TableValue* table = known_table({key.ns, entry.table})) {
    table->references -= std::min<std::uint64_t>(table->references, 1);
  }
}

void IndexChange::alter_block(const BlockKey& key, const IndexEntry& entry) {
  batch_.put(Column::blocks, block_key(key), block_value(entry));
}

TableValue* IndexChange::known_table(const TableName& name) {
  if (name.table.value == 0 || removed_tables_.contains(name)) return nullptr;
  if (const auto found = tables_.find(name); found != tables_.end()) return &found->second;
  const std::optional<TableValue> value = state_->catalog.find_table(name);
  return value ? &(tables_[name] = *value) : nullptr;
}

void IndexChange::put_table(const TableName& name, const IndexEntry& entry) {
  TableValue* known = known_table(name);
  if (known != nullptr) {
    unplace(RecordKind::table, known->entry);
  } else {
    known = &tables_[name];
    put_number(next_table_name, name.table.value + 1);
  }
  known->entry = entry;
  place({RecordKind::table, record_name(name)}, entry);
}

void IndexChange::remove_table(const TableName& name) {
  if (const TableValue* known = known_table(name)) unplace(RecordKind::table, known->entry);
  tables_.erase(name);
  removed_tables_.insert(name);
  batch_.remove(Column::tables, table_key(name.ns, name.table));
}

void IndexChange::put_namespace(NamespaceId ns, const NamespaceValue& value) {
  IndexEntry entry;
  if (const auto known = state_->catalog.find_namespace(ns)) {
    entry.where = known->where;
    unplace(RecordKind::name_space, entry);
  }
  entry.where = value.where;
  place({RecordKind::name_space, record_name(ns)}, entry);
  batch_.put(Column::namespaces, namespace_key(ns), namespace_value(value));
  namespaces_[ns] = value;
}

void IndexChange::put_epoch(std::string_view tenant, std::string_view fingerprint,
                            std::uint64_t epoch) {
  put_number(epoch_key(tenant, fingerprint), epoch);
  epochs_.push_back({{std::string(tenant), std::string(fingerprint)}, epoch});
}

void IndexChange::put_number(std::string_view name, std::uint64_t number) {
  batch_.put(Column::meta, std::string(name), number_value(number));
}

void IndexChange::remove_segment(SegmentId segment) {
  segments_.erase(segment);
  removed_segments_.insert(segment);
  batch_.remove(Column::segments, segment_key(segment));
}

void IndexChange::remove_placement(SegmentId segment, std::uint64_t offset) {
  batch_.remove(Column::placements, placement_key(segment, offset));
}

void IndexChange::finish_batch() {
  for (const auto& [segment, value] : segments_) {
    batch_.put(Column::segments, segment_key(segment), segment_value(value));
  }
  for (const auto& [name, value] : tables_) {
    batch_.put(Column::tables, table_key(name.ns, name.table), table_value(value));
  }
}

Status IndexChange::commit(bool synced) {
  finish_batch();
  if (batch_.empty()) return {};
  if (Status status = state_->database->write(batch_, synced); !status) {
    state_->index_failed = true;
    ++state_->counters.write_errors;
    state_->note_index_error(status.error());
    state_->health.failed(status.error());
    return status;
  }
  apply();
  return {};
}

void IndexChange::apply() {
  for (const auto& [segment, value] : segments_) state_->segments.set(segment, value);
  for (const SegmentId segment : removed_segments_) state_->segments.erase(segment);
  for (const auto& [name, value] : tables_) state_->catalog.set_table(name, value);
  for (const TableName& name : removed_tables_) state_->catalog.remove_table(name);
  for (const auto& [ns, value] : namespaces_) state_->catalog.set_namespace(ns, value);
  for (const auto& [name, epoch] : epochs_) {
    state_->catalog.set_epoch(name.tenant, name.fingerprint, epoch);
  }
}

}  // namespace kvstrata::storage
