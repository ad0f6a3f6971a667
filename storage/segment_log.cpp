#include "storage/segment_log.h"

#include <algorithm>

#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

namespace {
constexpr std::size_t open_files_max = 64;
constexpr Milliseconds growth_pause{30'000};
constexpr std::string_view next_segment_name = "next_segment";
}  // namespace

SegmentLog::SegmentLog(StoreState& state, Device& device, IoQueue& io, AsideFiles aside)
    : state_(state),
      device_(device),
      io_(io),
      files_(device, open_files_max),
      aside_(std::move(aside)) {
  state_.counters.aside_bytes = aside_.bytes();
}

void SegmentLog::resume(SegmentId segment, const SegmentValue& row) {
  stale_open_.push_back(segment);
  const Result<FileHandle> file = files_.open(segment);
  if (!file || open_) return;
  const Result<std::uint64_t> bytes = device_.size(*file);
  if (!bytes || *bytes != row.bytes) return;
  AlignedBuffer page(superblock_bytes);
  if (!device_.run({IoOperation::read, *file, 0, page.data(), page.size(), 0})) return;
  const Result<Superblock> superblock = parse_superblock(page.bytes());
  if (!superblock || superblock->segment != segment.value ||
      superblock->generation != row.generation || superblock->store != state_.directory.id()) {
    return;
  }
  active_[segment] = {row, *file, false, {}, {}};
  stale_open_.pop_back();
  files_.begin_use(segment);
  open_ = segment;
}

SegmentLog::Active* SegmentLog::open_segment() {
  return open_ ? &active_.at(*open_) : nullptr;
}

Result<SegmentLog::Place> SegmentLog::place(std::uint64_t record_bytes) {
  KV_CHECK(record_bytes <= state_.sizes.segment_bytes - superblock_bytes, "records are bounded");
  Active* open = open_segment();
  if (open == nullptr || open->row.bytes - open->row.tail < record_bytes) {
    KV_TRY(open_next());
    open = open_segment();
    if (open == nullptr) return Error(ErrorKind::io, "the new segment takes no writes");
  }
  const Place place{{*open_, open->row.generation, open->row.tail, record_bytes}, open->file};
  open->row.tail += record_bytes;
  open->row.sequence_end = state_.next_sequence + 1;
  open->touched = true;
  return place;
}

std::uint64_t SegmentLog::room_bytes() const {
  if (!open_) return 0;
  const SegmentValue& row = active_.at(*open_).row;
  return row.bytes - row.tail;
}

std::uint64_t SegmentLog::segments_needed(const Append& append) const {
  std::uint64_t room = room_bytes();
  std::uint64_t needed = 0;
  for (std::uint16_t i = 0; i < append.extents.count; ++i) {
    const std::uint64_t bytes = append.record_bytes_of(i);
    if (room < bytes) {
      ++needed;
      room = state_.sizes.segment_bytes - superblock_bytes;
    }
    room -= bytes;
  }
  return needed;
}

std::optional<SegmentTable::Row> SegmentLog::next_free() const {
  std::optional<SegmentTable::Row> best;
  for (const auto& [segment, row] : state_.segments.rows()) {
    if (row.state != SegmentState::free || row.bytes != state_.sizes.segment_bytes ||
        active_.contains(segment)) {
      continue;
    }
    if (!state_.segments.pinned(segment)) return SegmentTable::Row(segment, row);
    if (!best) best = {segment, row};
  }
  return best;
}

std::uint64_t SegmentLog::used_bytes() {
  const std::uint64_t index = disk_bytes(state_.directory.index_path());
  return state_.segments.totals().bytes + aside_.bytes() + fixed_bytes +
         std::max(index, state_.sizes.index_reserve_bytes);
}

bool SegmentLog::over_budget() {
  return used_bytes() > state_.sizes.budget_bytes;
}

std::uint64_t SegmentLog::openable() {
  std::uint64_t count = 0;
  for (const auto& [segment, row] : state_.segments.rows()) {
    count += row.state == SegmentState::free && row.bytes == state_.sizes.segment_bytes &&
                     !active_.contains(segment)
                 ? 1
                 : 0;
  }
  const std::uint64_t used = used_bytes();
  if (used < state_.sizes.budget_bytes && state_.options.clock->now() >= no_growth_until_) {
    count += (state_.sizes.budget_bytes - used) / state_.sizes.segment_bytes;
  }
  return count;
}

bool SegmentLog::remove_aside() {
  if (aside_.empty()) return false;
  aside_.remove_oldest();
  state_.counters.aside_bytes = aside_.bytes();
  return true;
}

Status SegmentLog::open_next() {
  if (Active* open = open_segment()) {
    open->row.state = SegmentState::sealed;
    open->touched = true;
    open_.reset();
  }
  if (const auto row = next_free()) return reuse(row->first, row->second);
  if (openable() == 0) {
    return Error(ErrorKind::out_of_space, "no segment can be freed within the disk budget");
  }
  return create();
}

Status SegmentLog::reuse(SegmentId segment, const SegmentValue& row) {
  state_.segments.wait_unpinned(segment);
  state_.at_point("before-segment-reuse");
  Result<FileHandle> file = files_.open(segment);
  if (!file && file.error().kind() == ErrorKind::not_found) {
    file = files_.create(segment, row.bytes);  // somebody deleted it by hand
  }
  if (!file) return file.error();
  KV_ASSIGN(const std::uint64_t bytes, device_.size(*file));
  if (bytes < row.bytes) KV_TRY(device_.allocate(*file, row.bytes));
  start(segment, row, *file);
  return {};
}

// The row comes first, so that no crash leaves a file that nothing counts.
Status SegmentLog::create() {
  const SegmentId segment{state_.next_segment++};
  SegmentValue row;
  row.bytes = state_.sizes.segment_bytes;
  {
    KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
    change.segment(segment) = row;
    change.put_number(next_segment_name, segment.value + std::uint64_t{1});
    KV_TRY(change.commit());
  }
  const Result<FileHandle> file = files_.create(segment, row.bytes);
  if (!file) {
    if (file.error().kind() == ErrorKind::out_of_space) {
      no_growth_until_ = state_.options.clock->now() + growth_pause;
      state_.counters.growth_refused = true;
    }
    // If even that fails the row stays, as a free segment's whose file is made when it is used.
    if (!files_.remove(segment)) return file.error();
    KV_ASSIGN(IndexChange change, IndexChange::begin(state_));
    change.remove_segment(segment);
    KV_TRY(change.commit());
    return file.error();
  }
  state_.counters.growth_refused = false;
  start(segment, row, *file);
  return {};
}

void SegmentLog::start(SegmentId segment, const SegmentValue& row, FileHandle file) {
  Active active{row, file, true, {}, {}};
  active.row.state = SegmentState::open;
  active.row.tail = superblock_bytes;
  active.row.order = next_order();
  if (const auto burnt = burnt_generations_.find(segment); burnt != burnt_generations_.end()) {
    active.row.generation = std::max(row.generation, burnt->second + 1);
  }
  active_[segment] = active;
  files_.begin_use(segment);
  open_ = segment;
  const auto page = std::make_shared<AlignedBuffer>(superblock_bytes);
  write_superblock(segment, active.row.generation, row.bytes, state_.directory.id(),
                   state_.now_unix_ms(), page->bytes());
  io_.add({IoOperation::write, file, 0, page->data(), page->size(), 0},
          [this, segment, page](const Status& status) {
            if (!status) seal(segment, status);
          });
}

std::uint64_t SegmentLog::next_order() const {
  std::uint64_t order = 0;
  for (const auto& [segment, row] : state_.segments.rows()) order = std::max(order, row.order);
  for (const auto& [segment, active] : active_) order = std::max(order, active.row.order);
  return order + 1;
}

void SegmentLog::begin_commit() {
  for (auto& [segment, active] : active_) {
    if (std::exchange(active.touched, false)) active.committing = active.row;
  }
}

// One that was condemned is never synced again.
std::vector<std::pair<SegmentId, FileHandle>> SegmentLog::unsynced() const {
  std::vector<std::pair<SegmentId, FileHandle>> files;
  for (const auto& [segment, active] : active_) {
    const auto& row = active.committing;
    if (row && row->state != SegmentState::lost) files.emplace_back(segment, active.file);
  }
  return files;
}

void SegmentLog::seal(SegmentId segment, const Status& error) {
  const auto found = active_.find(segment);
  if (found == active_.end()) return;
  Active& active = found->second;
  const auto close = [](SegmentValue& row) {
    if (row.state == SegmentState::open) row.state = SegmentState::sealed;
  };
  close(active.row);
  if (active.committing) {
    close(*active.committing);
  } else {
    active.touched = true;
  }
  if (active.error.ok()) active.error = error;
  if (open_ == segment) open_.reset();
}

void SegmentLog::condemn(SegmentId segment) {
  seal(segment, Error(ErrorKind::io, "the segment was condemned by a failed sync"));
  const auto found = active_.find(segment);
  if (found == active_.end()) return;
  found->second.row.state = SegmentState::lost;
  if (found->second.committing) found->second.committing->state = SegmentState::lost;
}

Status SegmentLog::error_of(SegmentId segment) const {
  const auto found = active_.find(segment);
  return found == active_.end() ? Status() : found->second.error;
}

void SegmentLog::record(IndexChange& change) const {
  for (const auto& [segment, active] : active_) {
    if (!active.committing) continue;
    const SegmentValue& known = *active.committing;
    SegmentValue& row = change.segment(segment);
    row.state = known.state;
    row.generation = known.generation;
    row.bytes = known.bytes;
    row.tail = known.tail;
    row.order = known.order;
    row.sequence_end = known.sequence_end;
  }
  for (const SegmentId segment : stale_open_) {
    SegmentValue& row = change.segment(segment);
    if (row.state == SegmentState::open) row.state = SegmentState::sealed;
  }
}

void SegmentLog::committed() {
  stale_open_.clear();
  for (auto it = active_.begin(); it != active_.end();) {
    const SegmentId segment = it->first;
    it->second.committing.reset();
    const bool done = open_ != segment && !it->second.touched;
    ++it;
    if (done) drop_active(segment);
  }
}

void SegmentLog::abandon() {
  open_.reset();
  for (const auto& [segment, active] : active_) {
    const std::optional<SegmentValue> known = state_.segments.find(segment);
    if (known && known->state == SegmentState::open) {
      stale_open_.push_back(segment);
    } else {
      burnt_generations_[segment] = active.row.generation;
    }
  }
  while (!active_.empty()) drop_active(active_.begin()->first);
}

void SegmentLog::drop_active(SegmentId segment) {
  files_.end_use(segment);
  active_.erase(segment);
}

}  // namespace kvstrata::storage
