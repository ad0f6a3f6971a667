#include "storage/reclaim.h"

#include <algorithm>
#include <unordered_set>

#include "storage/mutant.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

namespace {

// Moved records are committed in groups of this size, so that memory stays bounded.
constexpr std::uint64_t move_group_bytes = 16_MiB;
constexpr Milliseconds read_step{1000};
// Holds and touches that arrive between plan and drop make the plan stale; it is made anew.
constexpr int plans_max = 4;
// What is held or touched changes while load pauses: after so long the plan is made anew.
constexpr Milliseconds pause_max{1000};

}  // namespace

// A touched block is of use only with its ancestors, so they count as touched as well.
Status Reclaimer::widen_touches() {
  for (std::vector<BlockKey> keys = state_.interest.take_fresh(); !keys.empty();
       keys = state_.interest.take_fresh()) {
    std::vector<std::optional<IndexEntry>> entries(keys.size());
    KV_TRY(state_.index.find(keys, entries));
    std::vector<BlockKey> parents;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!entries[i] || !entries[i]->parent) continue;
      const BlockKey parent{keys[i].ns, *entries[i]->parent, keys[i].group};
      if (!state_.interest.touched(parent)) parents.push_back(parent);
    }
    state_.interest.touch(parents);
  }
  return {};
}

ReclaimRules Reclaimer::rules() const {
  const auto awaited = std::make_shared<std::unordered_set<BlockKey>>();
  const auto needed = std::make_shared<std::unordered_set<BlockKey>>();
  queue_.visit([&](const Append& append) {
    const BlockKey& key = append.request.key;
    if (!append.request.parent) return;
    const bool must_stay = append.request.pinned || state_.interest.held(key);
    (must_stay ? needed : awaited)->insert({key.ns, *append.request.parent, key.group});
  });
  ReclaimRules rules;
  rules.now_unix_ms = state_.now_unix_ms();
  rules.keep_bytes_max = state_.sizes.segment_bytes / 2;
  rules.must_stay = [this, needed, now = rules.now_unix_ms](const BlockKey& key,
                                                            const IndexEntry& entry) {
    return (entry.pinned && !entry.expired(now)) || state_.interest.held(key) ||
           needed->contains(key);
  };
  rules.wanted = [this, awaited](const BlockKey& key) {
    return state_.interest.touched(key) || awaited->contains(key);
  };
  return rules;
}

Result<bool> Reclaimer::reclaim_one() {
  stuck_.clear();
  for (;;) {
    KV_ASSIGN(const Progress progress, advance());
    if (progress != Progress::going_on) return progress == Progress::emptied;
  }
}

Result<Reclaimer::Progress> Reclaimer::advance(GroupCommit::WriteAhead write_ahead) {
  state_.counters.reclaiming = true;
  write_ahead_ = std::move(write_ahead);
  Result<Progress> progress = take_step();
  write_ahead_ = [] {};
  if (!progress || *progress != Progress::going_on) rest();
  if (emptying_) emptying_->last_step = state_.options.clock->now();
  state_.counters.reclaiming = false;
  return progress;
}

void Reclaimer::rest() {
  end_reads();
  emptying_.reset();
  stuck_.clear();
}

Result<Reclaimer::Progress> Reclaimer::take_step() {
  if (!emptying_) return plan();
  if (state_.options.clock->now() > emptying_->last_step + pause_max) {
    emptying_->next = Step::plan;
    emptying_->plans = 0;
  }
  switch (emptying_->next) {
    case Step::plan: return plan();
    case Step::move: return move_away();
    case Step::drop: return drop();
  }
  return Progress::going_on;
}

// What was moved so far has to be known first, or it is moved again.
Result<Reclaimer::Progress> Reclaimer::plan() {
  if (moved_in_ == group_.number()) KV_TRY(commit_group());
  KV_TRY(widen_touches());
  if (!emptying_) {
    const auto victim = state_.segments.next_victim(
        [&](SegmentId segment) { return log_.active(segment) || stuck_.contains(segment); });
    if (!victim) return Progress::nothing_to_empty;
    emptying_.emplace(*victim);
  }
  Emptying& now = *emptying_;
  if (now.plans++ == plans_max) return set_aside();
  const std::optional<SegmentValue> row = state_.segments.find(now.victim);
  KV_CHECK(row.has_value(), "only the writer removes segments");
  KV_ASSIGN(now.placed, state_.index.placements(now.victim));
  end_reads();
  now.keep.clear();
  now.unread = 0;
  if (row->state != SegmentState::lost) {
    KV_ASSIGN(std::vector<KeyedEntry> blocks,
              state_.index.live_blocks(now.placed, now.victim, row->generation));
    KV_ASSIGN(ReclaimPlan plan, plan_reclaim(state_.index, rules(), std::move(blocks)));
    now.keep = std::move(plan.keep);
  }
  std::uint64_t keep_bytes = 0;
  for (const auto& [key, entry] : now.keep) {
    keep_bytes += entry.bytes_in(now.victim, row->generation);
  }
  // Moving them would free nothing.
  if (keep_bytes > row->bytes / 8 * 7) return set_aside();
  move_failed_ = false;
  start_reads();
  now.next = Step::move;
  return Progress::going_on;
}

Reclaimer::Progress Reclaimer::set_aside() {
  stuck_.insert(emptying_->victim);
  end_reads();
  emptying_.reset();
  return Progress::going_on;
}

Result<Reclaimer::Progress> Reclaimer::move_away() {
  KV_ASSIGN(const bool namespaces_moved, move_namespaces(emptying_->placed));
  KV_ASSIGN(const bool tables_moved, move_tables(emptying_->placed));
  const Status moved = move_blocks();
  end_reads();
  if (!moved) return moved.error();
  if (!namespaces_moved || !tables_moved) {
    KV_TRY(commit_group());
    return set_aside();
  }
  emptying_->next = Step::drop;
  return Progress::going_on;
}

Result<Reclaimer::Progress> Reclaimer::drop() {
  if (moved_in_ == group_.number()) KV_TRY(commit_group());
  if (!move_failed_) {
    KV_ASSIGN(const bool empty, drop_rest(emptying_->victim));
    if (empty) return Progress::emptied;
  }
  emptying_->next = Step::plan;
  return Progress::going_on;
}

void Reclaimer::start_read(Reading& reading) {
  for (const RecordRead::Transfer& transfer : reading.record.transfers()) {
    const Result<FileHandle> file = log_.files().open(transfer.segment);
    if (!file) {
      reading.status = file.error();
      return;
    }
    log_.files().begin_use(transfer.segment);
    ++reading.transfers_left;
    io_.add({IoOperation::read, *file, transfer.offset, transfer.buffer, transfer.bytes, 0},
            [this, &reading, segment = transfer.segment](const Status& ended) {
              log_.files().end_use(segment);
              --reading.transfers_left;
              if (!ended) reading.status = ended;
            });
  }
}

void Reclaimer::wait_for(const Reading& reading) {
  while (reading.transfers_left > 0) io_.poll(1, read_step);
}

Result<ReadRecord> Reclaimer::finish(Reading& reading) {
  wait_for(reading);
  KV_TRY(reading.status);
  return reading.record.finish(true);
}

Result<ReadRecord> Reclaimer::read(RecordKind kind, const BlockKey& key, const IndexEntry& entry) {
  Reading reading{{kind, key, entry}, {}, 0};
  start_read(reading);
  return finish(reading);
}

Result<bool> Reclaimer::add_move(RecordKind kind, const BlockKey& key, const IndexEntry& entry,
                                 ReadRecord record) {
  const auto append = std::make_shared<Append>();
  append->kind = kind;
  AppendRequest& request = append->request;
  request.key = key;
  request.parent = entry.parent;
  request.identity.assign(record.identity.begin(), record.identity.end());
  request.frame_bytes = record.frame.size();
  KV_ASSIGN(request.frame, FrameBuffer::take(record.frame.size()));
  if (!record.frame.empty()) {
    std::memcpy(request.frame.data(), record.frame.data(), record.frame.size());
  }
  request.raw_bytes = entry.raw_bytes;
  request.payload_xxh3 = entry.payload_xxh3;
  request.codec = entry.codec;
  request.table = entry.table;
  request.expires_unix_ms = entry.expires_unix_ms;
  request.pinned = entry.pinned;
  append->created_unix_ms = entry.created_unix_ms;
  append->moved_from = entry.where;
  KV_TRY(prepare_append(*append, state_.sizes.record_bytes_max, UINT64_MAX));
  append->done = [this](const Result<IndexEntry>& moved) {
    // A move is cancelled where the block changed meanwhile: that is as good.
    if (!moved && moved.error().kind() != ErrorKind::cancelled) move_failed_ = true;
  };
  // An append of this block that is under way decides first.
  if (kind == RecordKind::block && group_.contains(key)) KV_TRY(commit_group());
  const std::uint64_t needed = log_.segments_needed(*append);
  if (needed > 0 && needed > log_.openable()) return false;
  if (moved_in_ != group_.number()) moved_bytes_ = 0;
  moved_in_ = group_.number();
  group_.add(append);
  moved_bytes_ += append->record_bytes();
  if (moved_bytes_ >= move_group_bytes) KV_TRY(commit_group());
  return true;
}

Status Reclaimer::commit_group() {
  return group_.empty() ? Status() : group_.commit(write_ahead_);
}

// Reads the next blocks to move, side by side.
void Reclaimer::start_reads() {
  std::uint64_t bytes = 0;
  while (emptying_->unread < emptying_->keep.size() && bytes < move_group_bytes) {
    const auto& [key, entry] = emptying_->keep[emptying_->unread++];
    bytes += entry.record_bytes();
    emptying_->readings.push_back({{RecordKind::block, key, entry}, {}, 0});
    start_read(emptying_->readings.back());
  }
  io_.poll(0, Milliseconds(0));
}

void Reclaimer::end_reads() {
  if (!emptying_) return;
  for (Reading& reading : emptying_->readings) wait_for(reading);
  emptying_->readings.clear();
}

Status Reclaimer::move_blocks() {
  Emptying& now = *emptying_;
  while (!now.readings.empty()) {
    for (Reading& reading : now.readings) {
      KV_ASSIGN(const bool has_room, move_block(reading));
      // What there is no room for is dropped with the rest, unless it must stay: keeping what is
      // only wanted must never stop a full store from taking new blocks.
      if (!has_room) return {};
    }
    end_reads();
    start_reads();
  }
  return {};
}

Result<bool> Reclaimer::move_block(Reading& reading) {
  const BlockKey& key = reading.record.key();
  const IndexEntry& entry = reading.record.entry();
  Result<ReadRecord> record = finish(reading);
  if (!record) {
    // What can't be read stays behind: it is dropped with the rest, or keeps the segment if it must
    // stay, for the failure may pass. Damage doesn't.
    if (is_damage(record.error())) KV_TRY(remove_damaged(key, entry));
    return true;
  }
  Result<bool> has_room = add_move(RecordKind::block, key, entry, std::move(*record));
  // A block that there is no memory for stays behind like one that can't be read.
  if (!has_room && has_room.error().kind() == ErrorKind::out_of_memory) return true;
  if (has_room && *has_room) state_.interest.forget_touch(key);
  return has_room;
}

bool Reclaimer::is_damage(const Error& error) {
  if (error.kind() == ErrorKind::out_of_memory) return false;  // not the disk's fault
  const bool damage = error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::not_found;
  ++(damage ? state_.counters.corrupt_records : state_.counters.read_errors);
  return damage;
}

Status Reclaimer::remove_damaged(const BlockKey& key, const IndexEntry& entry) {
  KV_TRY(commit_group());
  KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
  KV_ASSIGN(const auto current, state_.index.find(key));
  if (!current || current->where != entry.where) return {};
  change.remove_block(key, *current);
  KV_TRY(change.commit());
  ++state_.counters.dropped_blocks;
  state_.dropped.add({&key, 1});
  return {};
}

Result<bool> Reclaimer::move_tables(const std::vector<PlacedRecord>& placed) {
  std::set<TableName> moved;
  for (const PlacedRecord& record : placed) {
    if (record.placement.kind != RecordKind::table) continue;
    const BlockKey& key = record.placement.key;
    const TableName name = table_of(key);
    const std::optional<TableValue> table = state_.catalog.find_table(name);
    if (!table || !moved.insert(name).second) continue;
    Result<ReadRecord> read_back = read(RecordKind::table, key, table->entry);
    if (!read_back) {
      if (!is_damage(read_back.error())) return false;
      KV_TRY(commit_group());
      KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
      change.remove_table(name);
      KV_TRY(change.commit());
      continue;
    }
    const Result<bool> has_room =
        add_move(RecordKind::table, key, table->entry, std::move(*read_back));
    if (!has_room && has_room.error().kind() != ErrorKind::out_of_memory) return has_room.error();
    if (!has_room || !*has_room) return false;
  }
  return true;
}

// A namespace is known from the index alone; its record exists for recovery, and is written anew.
Result<bool> Reclaimer::move_namespaces(const std::vector<PlacedRecord>& placed) {
  for (const PlacedRecord& record : placed) {
    if (record.placement.kind != RecordKind::name_space) continue;
    const NamespaceId ns = record.placement.key.ns;
    const std::optional<NamespaceValue> value = state_.catalog.find_namespace(ns);
    if (!value || value->where.offset != record.offset) continue;
    IndexEntry entry;
    entry.where = value->where;
    entry.created_unix_ms = value->created_unix_ms;
    const ByteVector identity = namespace_bytes(value->spec);
    ReadRecord as_read;
    as_read.identity = identity;
    KV_ASSIGN(const bool has_room,
              add_move(RecordKind::name_space, record_name(ns), entry, std::move(as_read)));
    if (!has_room) return false;
  }
  return true;
}

Result<bool> Reclaimer::drop_rest(SegmentId victim) {
  std::vector<BlockKey> dropped;
  bool remove = false;
  {
    KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
    KV_ASSIGN(const std::vector<PlacedRecord> placed, state_.index.placements(victim));
    KV_ASSIGN(const bool may_go, drop_blocks(change, victim, placed, dropped));
    if (!may_go) return false;
    SegmentValue& row = change.segment(victim);
    remove = row.state == SegmentState::lost || row.bytes != state_.sizes.segment_bytes ||
             log_.over_budget();
    row.state = remove ? SegmentState::lost : SegmentState::free;
    ++row.generation;
    row.tail = superblock_bytes;
    row.live_bytes = 0;
    row.live_blocks = 0;
    state_.at_point("before-reclaim-index");
    KV_TRY(change.commit(!mutant(Mutant::reuse_before_index_delete)));
  }
  state_.at_point("after-reclaim-index");
  ++state_.counters.reclaimed_segments;
  state_.counters.dropped_blocks += dropped.size();
  state_.dropped.add(dropped);
  if (remove) KV_TRY(remove_file(victim));
  return true;
}

// Judged anew under the lock: since the plan was made, blocks may have been held, moved or erased.
Result<bool> Reclaimer::drop_blocks(IndexChange& change, SegmentId victim,
                                    const std::vector<PlacedRecord>& placed,
                                    std::vector<BlockKey>& dropped) {
  const std::optional<SegmentValue> row = state_.segments.find(victim);
  const bool lost = row->state == SegmentState::lost;
  for (const PlacedRecord& record : placed) {
    change.remove_placement(victim, record.offset);
    const Placement& placement = record.placement;
    if (placement.kind == RecordKind::block) continue;
    // A table or namespace that could not be moved, for want of space: try again later.
    const auto table = state_.catalog.find_table(table_of(placement.key));
    const auto ns = state_.catalog.find_namespace(placement.key.ns);
    const bool table_here = placement.kind == RecordKind::table && table &&
                            table->entry.bytes_in(victim, row->generation) > 0;
    const bool ns_here = placement.kind == RecordKind::name_space && ns &&
                         ns->where.segment == victim && ns->where.offset == record.offset;
    if (table_here || ns_here) return false;
  }
  KV_ASSIGN(const std::vector<KeyedEntry> blocks,
            state_.index.live_blocks(placed, victim, row->generation));
  std::vector<BlockKey> roots;
  for (const auto& [key, entry] : blocks) roots.push_back(key);
  KV_ASSIGN(const std::vector<KeyedEntry> going, with_descendants(state_.index, roots));
  const ReclaimRules now = rules();
  for (const auto& [key, entry] : going) {
    if (!lost && now.must_stay(key, entry)) return false;
    change.remove_block(key, entry);
    dropped.push_back(key);
  }
  return true;
}

// The row goes last: until then the segment counts, and a start finds and finishes the removal.
Status Reclaimer::remove_file(SegmentId segment) {
  state_.segments.wait_unpinned(segment);
  KV_TRY(log_.files().remove(segment));
  forget_file_(segment);
  KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
  change.remove_segment(segment);
  return change.commit();
}

Status Reclaimer::give_up(SegmentId segment) {
  if (log_.active(segment)) {
    log_.condemn(segment);
    KV_TRY(group_.commit());
  }
  KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
  const std::optional<SegmentValue> row = state_.segments.find(segment);
  if (!row || row->state == SegmentState::free) return {};
  KV_ASSIGN(const std::vector<BlockKey> keys, remove_blocks_of(state_.index, change, segment));
  change.segment(segment).state = SegmentState::lost;
  KV_TRY(change.commit());
  ++state_.counters.condemned_segments;
  state_.counters.dropped_blocks += keys.size();
  state_.dropped.add(keys);
  return {};
}

Result<bool> Reclaimer::remove_spare() {
  std::optional<SegmentId> spare;
  std::uint64_t usable = 0;
  for (const auto& [segment, row] : state_.segments.rows()) {
    if (row.state != SegmentState::free || log_.active(segment)) continue;
    const bool fits = row.bytes == state_.sizes.segment_bytes;
    usable += fits ? 1 : 0;
    if (!fits || (usable > reserve_segments && log_.over_budget())) spare = segment;
  }
  if (!spare) return false;
  KV_TRY(remove_file(*spare));
  return true;
}

Status Reclaimer::shrink_to_budget() {
  while (log_.over_budget()) {
    if (log_.remove_aside()) continue;
    KV_ASSIGN(const bool removed, remove_spare());
    if (removed) continue;
    KV_ASSIGN(const bool reclaimed, reclaim_one());
    if (!reclaimed) break;
  }
  return {};
}

}  // namespace kvstrata::storage
