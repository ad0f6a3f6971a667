// A Machine is what a simulated store runs on: disks for segments and index that lose things when
// the power goes, a clock that is moved by hand, and faults by plan. It also knows when the store's
// writer thread has come to rest, so that a run can be repeated.
//
// Threads: the simulation's; the hooks are called by the store's. Lifetime: outlives its stores.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "kvstrata/clock.h"
#include "storage/device/fault_script.h"
#include "storage/device/memory_disk.h"
#include "storage/store.h"
#include "tests/simulation/power.h"
#include "tests/simulation/simulated_disk.h"

namespace kvstrata::simulation {

/// How large a store is.
struct Sizes {
  std::uint64_t segment_bytes = 64_KiB;
  std::uint64_t segments = 8;
  std::uint64_t group_commit_bytes = 8_MiB;
};

class Machine {
 public:
  /// `directory` holds only the lock and the identity; it may be used by one machine after another.
  Machine(std::uint64_t seed, std::string directory);

  Result<std::unique_ptr<storage::Store>> open_store(const Sizes& sizes);
  /// After the store is gone: the power is on again.
  void switch_on();

  /// How many appends the writer has taken from its queue in this life.
  std::uint64_t taken() const;
  /// Returns when that many are, and the writer is ready for more.
  void wait_taken(std::uint64_t appends);
  /// The writer waits with the next append it takes, until it is let go: so what is appended
  /// meanwhile is there all at once, as under load.
  void hold_writer();
  void let_writer_go();
  /// Steps of reclaim that were taken while the disk had other work.
  std::uint64_t reclaims_ahead() const { return reclaims_ahead_; }
  /// Returns when the writer has nothing to do: everything is flushed, every errand done.
  void settle(storage::Store& store);

  FakeClock& clock() { return clock_; }
  Power& power() { return power_; }
  const Power& power() const { return power_; }
  storage::FaultScript& transfers() { return *transfers_; }  ///< faults of the segments' device
  SimulatedDisk& index() { return index_; }
  /// The n-th data sync of segments from now on fails; 0: none.
  void fail_sync(std::uint64_t nth) { syncs_left_ = nth; }
  std::uint64_t syncs_failed() const { return syncs_failed_; }
  /// Faults of every kind that struck the index.
  std::uint64_t index_faults() const { return index_.faults_struck(); }
  /// Whether reclaim was about to take blocks out of the index when its last word was heard.
  bool reclaim_in_doubt() const { return reclaim_in_doubt_; }
  void forget_doubt() { reclaim_in_doubt_ = false; }

  /// At the next cut `keeps` decides of each unsynced sector of segments, in order, not the seed.
  void choose_sectors(std::function<bool()> keeps) { keeps_ = std::move(keeps); }

  /// Bytes of all files that lie in the segments' directory.
  std::uint64_t segment_file_bytes() const;
  /// What files of segments may take in a store of these sizes.
  static std::uint64_t budget_of_segments(const Sizes& sizes) {
    return sizes.segments * sizes.segment_bytes;
  }

 private:
  void at_point(std::string_view name);
  void wait_while_held();
  void wait_until(const std::function<bool()>& reached);
  void cut();
  std::string broken_mark() const { return directory_ + "/index/BROKEN"; }

  const std::string directory_;
  std::mt19937_64 random_;  // of what a cut takes
  std::function<bool()> keeps_;
  FakeClock clock_;
  Power power_;
  SimulatedDisk index_;
  std::shared_ptr<rocksdb::Env> environment_;
  std::shared_ptr<storage::MemoryDisk> segments_;
  std::shared_ptr<storage::FaultScript> transfers_;
  std::atomic<std::uint64_t> syncs_left_{0}, syncs_failed_{0};
  std::atomic<bool> reclaim_in_doubt_{false};
  std::atomic<std::uint64_t> reclaims_ahead_{0};
  bool marked_broken_ = false;  // when the power went

  mutable std::mutex mutex_;
  std::condition_variable moved_, let_go_;
  bool held_ = false;
  std::function<bool()> waiting_;  // whether what the simulation waits for has come
  std::uint64_t turns_ = 0, taken_ = 0, turns_at_last_taken_ = 0;
};

}  // namespace kvstrata::simulation
