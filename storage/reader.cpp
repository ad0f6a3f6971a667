#include "storage/reader.h"

#include "storage/index_change.h"

namespace kvstrata::storage {

namespace {

constexpr std::size_t open_files_max = 128;
// Enough for any disk to be busy (2 ms of 8 GB/s), and so little that large records end one after
// the other: the disk serves all it is given at once, and none would be there before the last.
constexpr std::uint64_t bytes_in_flight_max = 16_MiB;
constexpr int follows_max = 8;
// While reads are in flight new ones wait at most this long to join them.
constexpr Milliseconds join_step{1};

std::vector<RecordLocation> extents_of(const IndexEntry& entry) {
  std::vector<RecordLocation> extents{entry.where};
  extents.insert(extents.end(), entry.more.begin(), entry.more.end());
  return extents;
}

}  // namespace

Reader::Reader(StoreState& state, std::unique_ptr<Device> device)
    : state_(state), device_(std::move(device)), io_(*device_), files_(*device_, open_files_max) {}

Reader::~Reader() {
  stop();
}

void Reader::start() {
  thread_ = std::thread([this] { run(); });
}

void Reader::stop() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Reader::read(RecordKind kind, const BlockKey& key, const IndexEntry& entry, ReadDone done) {
  auto job = std::make_shared<Job>();
  job->kind = kind;
  job->key = key;
  job->entry = entry;
  job->done = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      queue_.push_back(job);
      work_.notify_one();
      return;
    }
  }
  job->done(Error(ErrorKind::unavailable, "the store is closing"));
}

void Reader::forget_file(SegmentId segment) {
  const std::lock_guard lock(mutex_);
  forgotten_.push_back(segment);
  work_.notify_one();
}

void Reader::run() {
  while (take_work()) {
    while (!waiting_.empty() && io_.in_flight() < io_.depth() &&
           (bytes_in_flight_ == 0 ||
            bytes_in_flight_ + waiting_.front()->entry.record_bytes() <= bytes_in_flight_max)) {
      const JobPtr job = std::move(waiting_.front());
      waiting_.pop_front();
      begin(job);
    }
    if (io_.in_flight() > 0) io_.poll(1, join_step);
    for (const JobPtr& job : std::exchange(ended_, {})) end(job);
  }
}

// Moves new work over; waits if there is nothing else to do. False when closed and done.
bool Reader::take_work() {
  {
    std::unique_lock lock(mutex_);
    const bool idle = waiting_.empty() && ended_.empty() && io_.in_flight() == 0;
    if (idle) {
      work_.wait(lock, [&] { return closed_ || !queue_.empty() || !forgotten_.empty(); });
      if (closed_ && queue_.empty()) return false;
    }
    waiting_.insert(waiting_.end(), queue_.begin(), queue_.end());
    queue_.clear();
    forgotten_here_.insert(forgotten_here_.end(), forgotten_.begin(), forgotten_.end());
    forgotten_.clear();
  }
  std::erase_if(forgotten_here_, [&](SegmentId segment) { return files_.close(segment); });
  return true;
}

bool Reader::pin_all(const Job& job) {
  const std::vector<RecordLocation> extents = extents_of(job.entry);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (!state_.segments.pin(extents[i].segment, extents[i].generation)) {
      unpin_all(job, i);
      return false;
    }
  }
  return true;
}

void Reader::unpin_all(const Job& job, std::size_t count) {
  const std::vector<RecordLocation> extents = extents_of(job.entry);
  for (std::size_t i = 0; i < count; ++i) state_.segments.unpin(extents[i].segment);
}

void Reader::begin(const JobPtr& job) {
  if (!pin_all(*job)) {
    follow(job);
    return;
  }
  job->read = RecordRead(job->kind, job->key, job->entry);
  if (const Status& memory = job->read.memory(); !memory) {
    answer(job, memory.error());
    return;
  }
  job->status = {};
  bytes_in_flight_ += job->read.bytes();
  start_transfers(job);
}

void Reader::start_transfers(const JobPtr& job) {
  job->transfers_left = job->read.transfers().size();
  for (const RecordRead::Transfer& transfer : job->read.transfers()) {
    const Result<FileHandle> file = files_.open(transfer.segment);
    if (!file) {
      job->status = file.error();
      if (--job->transfers_left == 0) ended_.push_back(job);
      continue;
    }
    files_.begin_use(transfer.segment);
    io_.add({IoOperation::read, *file, transfer.offset, transfer.buffer, transfer.bytes, 0},
            [this, job, segment = transfer.segment](const Status& status) {
              files_.end_use(segment);
              if (!status) job->status = status;
              if (--job->transfers_left == 0) ended_.push_back(job);
            });
  }
}

void Reader::end(const JobPtr& job) {
  bytes_in_flight_ -= job->read.bytes();
  if (!job->status) {
    end_failed(job);
    return;
  }
  Result<ReadRecord> record = job->read.finish(job->kind != RecordKind::block);
  if (!record) {
    ++state_.counters.corrupt_records;
    remove_broken(*job);
    answer(job, Error(ErrorKind::corrupt, record.error().message()));
    return;
  }
  ++state_.counters.read_blocks;
  state_.counters.read_bytes += job->read.bytes();
  answer(job, std::move(record));
}

// A file that is gone or too short has lost its blocks for good; any other failure may pass.
void Reader::end_failed(const JobPtr& job) {
  ++state_.counters.read_errors;
  bool lost = false;
  for (const RecordLocation& extent : extents_of(job->entry)) {
    const bool here = files_.is_lost(extent.segment, extent.offset + extent.bytes);
    if (here) state_.errands.add_lost(extent.segment);
    lost = lost || here;
  }
  if (!lost) {
    answer(job, job->status.error());
    return;
  }
  remove_broken(*job);
  state_.wake_writer();
  answer(job, Error(ErrorKind::corrupt,
                    "the record's segment file is gone or cut: " + job->status.error().message()));
}

// The record's segment has other content by now; the index knows where the block went.
void Reader::follow(const JobPtr& job) {
  // An index write is visible before memory follows it; once the lock is free, both agree.
  {
    const std::lock_guard lock(state_.mutation);
  }
  Result<std::optional<IndexEntry>> entry = find_again(*job);
  if (!entry || !*entry || ++job->follows > follows_max) {
    job->done(entry ? Error(ErrorKind::not_found, "the block was removed meanwhile")
                    : entry.error());
    return;
  }
  const bool moved = (*entry)->where != job->entry.where;
  job->entry = **entry;
  if (moved || job->follows == 1) {
    waiting_.push_front(job);
    return;
  }
  ++state_.counters.corrupt_records;
  remove_broken(*job);
  job->done(Error(ErrorKind::corrupt, "the index names a segment that holds other content"));
}

Result<std::optional<IndexEntry>> Reader::find_again(const Job& job) const {
  if (job.kind == RecordKind::block) return state_.index.find(job.key);
  const std::optional<TableValue> table = state_.catalog.find_table(table_of(job.key));
  return table ? std::optional(table->entry) : std::nullopt;
}

void Reader::answer(const JobPtr& job, Result<ReadRecord> result) {
  job->done(std::move(result));
  unpin_all(*job, job->entry.more.size() + 1);
}

void Reader::remove_broken(const Job& job) {
  Result<IndexChange> change = IndexChange::begin(state_);
  if (!change) return;  // it is found again by the next read
  if (job.kind == RecordKind::table) {
    const TableName name = table_of(job.key);
    const auto table = state_.catalog.find_table(name);
    if (table && table->entry == job.entry) change->remove_table(name);
    (void)change->commit();
    return;
  }
  const Result<std::optional<IndexEntry>> current = state_.index.find(job.key);
  if (!current || !*current || (*current)->where != job.entry.where) return;
  change->remove_block(job.key, **current);
  if (!change->commit()) return;
  ++state_.counters.dropped_blocks;
  state_.dropped.add({&job.key, 1});
  state_.wake_writer();
}

}  // namespace kvstrata::storage
