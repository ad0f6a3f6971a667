// A FaultScript says which operations of a FaultyDevice go wrong, and how: the n-th of a kind,
// once or from then on, or some at random by a seed. All clones of a device share one.
//
// Threads: safe from any; operations are numbered in the order they are submitted, over all
// devices that share the script. Lifetime: shared by the test and its devices.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "kvstrata/clock.h"

namespace kvstrata::storage {

/// What a fault can strike. read, write and data_sync count attempts: a continued request is
/// several.
enum class FaultTarget : std::uint8_t {
  read,
  write,
  data_sync,
  open,
  allocate,
  size,
  remove,
  sync_directory,
  list,
  register_buffer,
  submission,  ///< the hand-over of an attempt, whatever it does: it is never started
};
inline constexpr std::size_t fault_target_count = 11;

/// How it goes wrong. Those other than `fail` apply to read and write (hold, delay, duplicate
/// also to data_sync).
enum class FaultAction : std::uint8_t {
  fail,        ///< ends with error_number; nothing moved
  tear,        ///< a write of which `bytes` moved ends with error_number
  cut,         ///< moves and reports `bytes`; the rest of the buffer keeps what it held
  overreport,  ///< moves all, reports more
  flip,        ///< a read that succeeds with one bit of the buffer changed
  delay,       ///< completes after `completions` later ones, or when nothing else is in flight
  hold,        ///< moves, but completes only after release()
  duplicate,   ///< completes twice
};

struct Fault {
  FaultTarget target = FaultTarget::read;
  FaultAction action = FaultAction::fail;
  std::uint64_t nth = 1;                    ///< counted from when the fault is added, from 1
  bool from_then_on = false;                ///< else once
  int error_number = 5;                     ///< EIO; of fail and tear
  std::uint64_t bytes = ~std::uint64_t{0};  ///< of tear and cut; half if not fewer than asked
  std::uint32_t completions = 1;            ///< of delay
};

/// Chances, 0 to 1, of each attempt.
struct FaultRates {
  double read_cut = 0;
  double write_cut = 0;
  double read_fails = 0;
  double write_fails = 0;
  double sync_fails = 0;
  double again = 0;  ///< a read or write that ends with EAGAIN
  double delay = 0;  ///< of any, behind 1 to 8 others
  double duplicate = 0;
};

class FaultScript {
 public:
  explicit FaultScript(std::uint64_t seed = 1) : random_(seed) {}

  void add(const Fault& fault);
  void set_rates(const FaultRates& rates);
  /// Forgets all faults and rates.
  void clear();

  /// Counts an operation, and says what goes wrong with it. `bytes` is what it is to move.
  std::optional<Fault> next(FaultTarget target, std::uint64_t bytes = 0);

  /// Lets the completions of all requests submitted under `hold` so far go, ended or not.
  void release();
  /// Changes with each release(); what was held under an older number may go.
  std::uint64_t releases() const;
  /// Waits until releases() differs from `seen` or the timeout passed.
  void wait_for_release(std::uint64_t seen, Milliseconds timeout);

  std::uint64_t operations(FaultTarget target) const;  ///< so far
  std::uint64_t injected() const;                      ///< faults that struck so far

 private:
  struct Pending {
    Fault fault;
    std::uint64_t at = 0;  // the operation's number it strikes
  };

  std::optional<Fault> by_chance(FaultTarget target, std::uint64_t bytes);

  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::mt19937_64 random_;
  FaultRates rates_;
  std::vector<Pending> faults_;
  std::uint64_t counts_[fault_target_count] = {};
  std::uint64_t injected_ = 0;
  std::uint64_t releases_ = 0;
};

}  // namespace kvstrata::storage
