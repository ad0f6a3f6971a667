#include "tests/simulation/machine.h"

#include <unistd.h>

#include <utility>

#include "storage/device/faulty_device.h"
#include "storage/device/memory_device.h"
#include "tests/simulation/power_device.h"
#include "tests/simulation/simulated_file_system.h"

namespace kvstrata::simulation {

namespace {

constexpr std::uint64_t index_reserve_bytes = 64_KiB;
// What the store counts for directories, lock and identity.
constexpr std::uint64_t fixed_bytes = 128_KiB;

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

Machine::Machine(std::uint64_t seed, std::string directory)
    : directory_(std::move(directory)),
      random_(seed),
      power_([this] { cut(); }),
      index_([this] { power_.operation(); }),
      environment_(simulated_environment(index_)),
      segments_(std::make_shared<storage::MemoryDisk>()),
      transfers_(std::make_shared<storage::FaultScript>(seed)) {
  (void)unlink(broken_mark().c_str());
  segments_->fail_syncs([this] {
    const bool fails = syncs_left_ > 0 && --syncs_left_ == 0;
    syncs_failed_ += fails ? 1 : 0;
    return fails;
  });
}

// The index first: what segments still take after it, the store asked for before it went.
void Machine::cut() {
  index_.crash(random_);
  if (keeps_) {
    segments_->crash(std::exchange(keeps_, nullptr));
  } else {
    segments_->crash(random_);
  }
  marked_broken_ = exists(broken_mark());
}

void Machine::switch_on() {
  // A dead machine can't have left the mark, only the store that outlived it here.
  if (!power_.on() && !marked_broken_) (void)unlink(broken_mark().c_str());
  index_.switch_on();
  power_.switch_on();
}

Result<std::unique_ptr<storage::Store>> Machine::open_store(const Sizes& sizes) {
  {
    const std::lock_guard lock(mutex_);
    turns_ = taken_ = turns_at_last_taken_ = 0;
  }
  storage::StoreOptions options;
  options.directory = directory_;
  options.segment_bytes = sizes.segment_bytes;
  options.group_commit_bytes = sizes.group_commit_bytes;
  options.index_reserve_bytes = index_reserve_bytes;
  options.disk_budget_bytes = index_reserve_bytes + fixed_bytes + budget_of_segments(sizes);
  options.group_commit_delay = Milliseconds(24 * 3'600'000);  // groups end when they are flushed
  options.clock = &clock_;
  options.index_environment = environment_.get();
  options.open_segments = [this]() -> Result<std::unique_ptr<storage::Device>> {
    return std::unique_ptr<storage::Device>(std::make_unique<storage::MemoryDevice>(segments_));
  };
  options.wrap_device = [this](std::unique_ptr<storage::Device> device) {
    auto powered = std::make_unique<PowerDevice>(std::move(device), power_);
    return std::unique_ptr<storage::Device>(
        std::make_unique<storage::FaultyDevice>(std::move(powered), transfers_));
  };
  options.at_point = [this](std::string_view name) { at_point(name); };
  return storage::Store::open(std::move(options));
}

void Machine::at_point(std::string_view name) {
  if (name == "writer-turn" || name == "append-taken") {
    bool awaited = false;
    {
      const std::lock_guard lock(mutex_);
      if (name == "writer-turn") {
        ++turns_;
      } else {
        ++taken_;
        turns_at_last_taken_ = turns_;
      }
      awaited = waiting_ && waiting_();
    }
    if (awaited) moved_.notify_one();
    if (name == "append-taken") wait_while_held();
    return;
  }
  if (name == "reclaim-ahead") ++reclaims_ahead_;
  if (name == "before-reclaim-index" && power_.on()) reclaim_in_doubt_ = true;
  if (name == "after-reclaim-index") reclaim_in_doubt_ = false;
  power_.point(name);
}

void Machine::hold_writer() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void Machine::let_writer_go() {
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
  }
  let_go_.notify_one();
}

void Machine::wait_while_held() {
  std::unique_lock lock(mutex_);
  let_go_.wait(lock, [this] { return !held_; });
}

std::uint64_t Machine::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

void Machine::wait_until(const std::function<bool()>& reached) {
  std::unique_lock lock(mutex_);
  waiting_ = reached;
  moved_.wait(lock, reached);
  waiting_ = nullptr;
}

void Machine::wait_taken(std::uint64_t appends) {
  wait_until([&] { return taken_ >= appends && turns_ > turns_at_last_taken_; });
}

// Twice: the first turn may have been about to end when the flush began.
void Machine::settle(storage::Store& store) {
  for (int i = 0; i < 2; ++i) {
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock(mutex_);
      seen = turns_;
    }
    (void)store.flush();
    wait_until([&] { return turns_ > seen; });
  }
}

std::uint64_t Machine::segment_file_bytes() const {
  storage::MemoryDevice device(segments_);
  std::uint64_t bytes = 0;
  const auto names = device.list();
  if (!names) return 0;
  for (const std::string& name : *names) {
    const auto file = device.open(name, false);
    if (!file) continue;
    bytes += device.size(*file).value();
    device.close(*file);
  }
  return bytes;
}

}  // namespace kvstrata::simulation
