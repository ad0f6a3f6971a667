// An IndexChange is one atomic, synced change of the index, with all that depends on it: rows of
// segments, the children and placements families, counts of tables. Memory follows only after the
// index has it.
//
// Threads: holds the store's mutation lock from begin() to destruction, so changes never overlap.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "storage/store_state.h"

namespace kvstrata::storage {

class IndexChange {
 public:
  /// After a failed write this first makes the index writable again, no more often than Health
  /// allows.
  static Result<IndexChange> begin(StoreState& state);

  /// Adds a block; its records lie in segments this change or the index knows.
  void put_block(const BlockKey& key, const IndexEntry& entry);
  /// Removes a block that `entry` describes, once; to replace one, remove and then put it.
  void remove_block(const BlockKey& key, const IndexEntry& entry);
  /// Changes what is not bound to a record: pin and expiry.
  void alter_block(const BlockKey& key, const IndexEntry& entry);

  void put_table(const TableName& name, const IndexEntry& entry);
  void remove_table(const TableName& name);
  void put_namespace(NamespaceId ns, const NamespaceValue& value);
  void put_epoch(std::string_view tenant, std::string_view fingerprint, std::uint64_t epoch);
  void put_number(std::string_view name, std::uint64_t number);

  /// The row of a segment as this change will leave it; a new one if there is none.
  SegmentValue& segment(SegmentId segment);
  void remove_segment(SegmentId segment);
  /// Forgets a record of a segment whose owner lies elsewhere by now.
  void remove_placement(SegmentId segment, std::uint64_t offset);

  bool empty() const { return batch_.empty() && segments_.empty(); }
  /// Writes and syncs everything; after an error nothing of it is known to memory. Only a mutant
  /// has it not synced.
  Status commit(bool synced = true);

 private:
  explicit IndexChange(StoreState& state) : state_(&state), lock_(state.mutation) {}
  static Status recover(StoreState& state);

  void place(const Placement& placement, const IndexEntry& entry);
  void unplace(RecordKind kind, const IndexEntry& entry);
  SegmentValue* known_segment(const RecordLocation& where);
  TableValue* known_table(const TableName& name);
  void finish_batch();
  void apply();

  StoreState* state_;
  std::unique_lock<std::mutex> lock_;
  DatabaseBatch batch_;
  std::unordered_set<BlockKey> removed_blocks_;
  std::map<SegmentId, SegmentValue> segments_;
  std::set<SegmentId> removed_segments_;
  std::map<TableName, TableValue> tables_;
  std::set<TableName> removed_tables_;
  std::map<NamespaceId, NamespaceValue> namespaces_;
  std::vector<std::pair<EpochName, std::uint64_t>> epochs_;
};

}  // namespace kvstrata::storage
