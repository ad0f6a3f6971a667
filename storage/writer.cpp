#include "storage/writer.h"

#include <algorithm>

namespace kvstrata::storage {

namespace {
// With nothing to write the budget is still looked at, for the index may have grown.
constexpr Milliseconds idle_step{5'000};
// What arrives while a group is committed joins the next one, up to this many times the usual
// size: so groups grow with what a sync costs.
constexpr std::uint64_t ahead_groups = 8;
// Enough that the disk has work during an index write or a step of reclaim; not more, for a sync
// waits for what the disk was given before.
constexpr std::uint64_t in_flight_groups = 3;
constexpr int appends_ahead_max = 1024;  // at once
}  // namespace

Writer::Writer(StoreState& state, AppendQueue& queue, std::unique_ptr<Device> device,
               AsideFiles aside, std::function<void(SegmentId)> forget_file)
    : state_(state),
      queue_(queue),
      device_(std::move(device)),
      device_name_(device_->name()),
      io_(*device_),
      log_(state, *device_, io_, std::move(aside)),
      group_(state, log_, io_, queue),
      reclaimer_(state, log_, group_, io_, queue, std::move(forget_file)),
      readmission_(state, io_, log_.files()) {}

Writer::~Writer() {
  stop();
}

void Writer::resume(const std::vector<SegmentTable::Row>& open_segments) {
  for (const auto& [segment, row] : open_segments) log_.resume(segment, row);
}

void Writer::start() {
  thread_ = std::thread([this] { run(); });
}

void Writer::stop() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
}

void Writer::run() {
  for (;;) {
    do_errands();
    state_.at_point("writer-turn");
    const bool closed = queue_.closed();
    take(next_deadline());
    const bool idle = taken_.empty();
    // Not what writing ahead takes meanwhile: under steady load that never ends.
    for (std::size_t left = taken_.size(); left > 0 && !taken_.empty(); --left) {
      const AppendPtr append = std::move(taken_.front());
      taken_.pop_front();
      handle(append);
    }
    io_.poll(0, Milliseconds(0));
    if (group_is_due()) commit_and_write_ahead();
    if (!idle || !taken_.empty() || !group_.empty()) continue;
    reclaimer_.rest();
    if (closed) break;
  }
  do_errands();
  io_.drain();
}

// A recovery of the index that failed leaves it closed: look-ups fail until it is tried again.
Status Writer::recover_index() {
  const Result<IndexChange> change = IndexChange::begin(state_);
  return change ? Status() : change.error();
}

Status Writer::readmit_disk() {
  if (!state_.health.take_probe()) return {};
  Status status = readmission_.check();
  if (!status) state_.health.failed(status.error());
  return status;
}

MonotonicTime Writer::next_deadline() const {
  const MonotonicTime now = state_.options.clock->now();
  if (!taken_.empty() || group_is_due()) return now;
  return group_.empty() ? now + idle_step : group_began_ + state_.options.group_commit_delay;
}

void Writer::take(MonotonicTime until) {
  const auto more = queue_.take(state_.options.group_commit_bytes, until);
  taken_.insert(taken_.end(), more.begin(), more.end());
}

void Writer::do_errands() {
  (void)recover_index();  // those who need it are told
  const std::vector<SegmentId> lost = state_.errands.take_lost();
  if (!lost.empty()) commit_group();
  for (const SegmentId segment : lost) {
    // What fails here is found again by the next read of that segment.
    if (reclaimer_.give_up(segment)) ++state_.counters.lost_segments;
  }
  remove_expired();
  const MonotonicTime now = state_.options.clock->now();
  if (now >= next_shrink_ && !queue_.closed()) {
    next_shrink_ = now + idle_step;
    if (log_.over_budget() && !state_.health.refusal() && readmit_disk()) {
      commit_group();
      (void)reclaimer_.shrink_to_budget();
    }
  }
  state_.dropped.deliver();
}

void Writer::remove_expired() {
  const std::vector<BlockKey> keys = state_.errands.take_expired();
  if (keys.empty()) return;
  Result<IndexChange> change = IndexChange::begin(state_);
  if (!change) return;
  std::vector<std::optional<IndexEntry>> entries(keys.size());
  if (!state_.index.find(keys, entries)) return;
  std::vector<BlockKey> removed;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!entries[i] || !entries[i]->expired(state_.now_unix_ms())) continue;
    change->remove_block(keys[i], *entries[i]);
    removed.push_back(keys[i]);
  }
  if (!change->commit()) return;
  state_.counters.expired_blocks += removed.size();
  state_.dropped.add(removed);
}

std::optional<Result<IndexEntry>> Writer::settle_early(const Append& append) {
  if (append.cancelled) {
    return Result<IndexEntry>(
        Error(ErrorKind::cancelled, "the block was erased before it was written"));
  }
  if (const auto refusal = state_.health.refusal()) return Result<IndexEntry>(*refusal);
  if (Status ready = recover_index(); !ready) return Result<IndexEntry>(ready.error());
  if (Status admitted = readmit_disk(); !admitted) return Result<IndexEntry>(admitted.error());
  if (append.kind != RecordKind::block) return std::nullopt;
  Result<std::optional<IndexEntry>> existing = state_.index.find(append.request.key);
  if (!existing) return Result<IndexEntry>(existing.error());
  if (!*existing || (*existing)->expired(state_.now_unix_ms())) return std::nullopt;
  const AppendRequest& request = append.request;
  const IndexEntry& entry = **existing;
  if (entry.payload_xxh3 != request.payload_xxh3 || entry.raw_bytes != request.raw_bytes) {
    return Result<IndexEntry>(
        Error(ErrorKind::conflict, "other bytes are stored under this key; the first stay"));
  }
  const bool same_form = entry.codec == request.codec && entry.table == request.table &&
                         entry.pinned == request.pinned &&
                         entry.expires_unix_ms == request.expires_unix_ms;
  if (same_form) return Result<IndexEntry>(entry);
  return std::nullopt;
}

void Writer::handle(const AppendPtr& append) {
  state_.at_point("append-taken");
  if (append->kind == RecordKind::block && group_.contains(append->request.key)) commit_group();
  if (auto settled = settle_early(*append)) {
    queue_.finish(append, std::move(*settled));
    return;
  }
  if (Status room = ensure_room(*append); !room) {
    ++state_.counters.write_errors;
    state_.note_index_error(room.error());
    state_.health.failed(room.error());
    queue_.finish(append, room.error());
    return;
  }
  begin(append);
  if (group_.bytes() >= state_.options.group_commit_bytes) commit_and_write_ahead();
}

void Writer::begin(const AppendPtr& append) {
  if (group_.empty()) group_began_ = state_.options.clock->now();
  group_.add(append);
}

bool Writer::wants_more_ahead() const {
  const std::uint64_t group_bytes = state_.options.group_commit_bytes;
  return may_write_ahead_ && group_.bytes() < group_bytes * ahead_groups &&
         io_.bytes_in_flight() < group_bytes * in_flight_groups &&
         io_.in_flight() < io_.depth() / 4 * 3;
}

// Begins what follows the group that is being committed, so that the disk has work meanwhile.
void Writer::write_ahead() {
  io_.poll(0, Milliseconds(0));  // what has ended makes room
  for (int begun = 0; begun < appends_ahead_max && wants_more_ahead(); ++begun) {
    if (taken_.empty()) take(state_.options.clock->now());
    if (taken_.empty()) break;
    if (!can_begin_ahead(*taken_.front())) {
      may_write_ahead_ = false;
      break;
    }
    const AppendPtr append = std::move(taken_.front());
    taken_.pop_front();
    if (auto settled = settle_early(*append)) {
      queue_.finish(append, std::move(*settled));
    } else {
      begin(append);
    }
  }
  io_.poll(0, Milliseconds(0));
}

// What needs reclaim, or to know how an earlier append of its block ends, waits for the commit.
bool Writer::can_begin_ahead(const Append& append) {
  if (append.kind == RecordKind::block && group_.contains(append.request.key)) return false;
  const std::uint64_t segments = log_.segments_needed(append);
  return segments == 0 || log_.openable() >= segments + reserve_segments;
}

// Leaves the segments that reclaim needs to do its work.
Status Writer::ensure_room(const Append& append) {
  if (log_.segments_needed(append) == 0) return {};
  std::uint64_t attempts_left = 2 * state_.segments.totals().segments + append.extents.count;
  // Asked anew each time: what reclaim keeps fills the open segment too.
  while (log_.openable() < log_.segments_needed(append) + reserve_segments) {
    if (log_.remove_aside()) continue;
    commit_group();  // what lies in its segments can't be reclaimed before
    KV_ASSIGN(const bool removed, reclaimer_.remove_spare());
    if (removed) continue;
    KV_ASSIGN(const bool reclaimed, reclaimer_.reclaim_one());
    if (reclaimed && attempts_left-- > 0) continue;
    if (log_.openable() >= log_.segments_needed(append)) return {};
    return Error(ErrorKind::out_of_space,
                 "the disk tier is full of blocks that must stay (pinned or held)");
  }
  return {};
}

// Under steady load the next segment is emptied while this one is still being filled, a step behind
// each group, so that the disk never waits for reclaim. What can't be done here is tried again, and
// told, when the room is needed.
void Writer::reclaim_ahead() {
  const bool steady_load = !group_.empty();  // something was written ahead
  if (!steady_load || log_.room_bytes() > state_.sizes.segment_bytes / 4 * 3 ||
      log_.openable() > reserve_segments || reclaimed_for_ == log_.open_segment_id()) {
    return;
  }
  state_.at_point("reclaim-ahead");
  may_write_ahead_ = true;
  write_ahead();
  const auto progress = reclaimer_.advance([this] { write_ahead(); });
  const bool done = !progress || *progress != Reclaimer::Progress::going_on;
  if (done) reclaimed_for_ = log_.open_segment_id();
}

bool Writer::group_is_due() const {
  if (group_.empty()) return false;
  return group_.bytes() >= state_.options.group_commit_bytes || queue_.flush_wanted() ||
         state_.options.clock->now() >= group_began_ + state_.options.group_commit_delay;
}

void Writer::commit_group() {
  if (group_.empty()) return;
  (void)group_.commit();  // each append has its own result
}

void Writer::commit_and_write_ahead() {
  may_write_ahead_ = true;
  (void)group_.commit([this] { write_ahead(); });
  reclaim_ahead();
}

}  // namespace kvstrata::storage
