#include "tests/simulation/faults.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "kvstrata/check.h"

namespace kvstrata::simulation {

namespace {

using storage::Fault;
using storage::FaultAction;
using storage::FaultTarget;
using Operation = SimulatedDisk::Operation;

constexpr std::array errors = {EIO, ENOSPC, EROFS, EAGAIN, EINTR, EINVAL, ENODEV};
constexpr std::array<const char*, storage::fault_target_count> target_names = {
    "read",           "write", "data_sync",       "open",      "allocate", "size", "remove",
    "sync_directory", "list",  "register_buffer", "submission"};
constexpr std::array<const char*, 7> operation_names = {
    "index open",           "index read",   "index append", "index sync",
    "index sync_directory", "index rename", "index remove"};
constexpr std::array<const char*, 8> action_names = {"fail", "tear",  "cut",  "overreport",
                                                     "flip", "delay", "hold", "duplicate"};

constexpr int blocks = 60;        // more than the segments hold, so that some are reclaimed
constexpr int burst_blocks = 24;  // at once: reclaim then goes ahead step by step
constexpr int late_blocks = 6;    // after the restart
constexpr std::uint64_t group_bytes = 24_KiB;  // so that a burst is several groups

// Small ones, such that fill a record, and such that are split over three.
std::uint64_t bytes_of(int n) {
  return n % 5 == 4 ? 20'000 : n % 2 == 0 ? 3'000 : 11'000;
}

/// What became of the puts.
struct Journal {
  std::map<int, bool> acknowledged;
};

void put_and_get(Bench& bench, Journal& journal, FaultOutcome& outcome, int first, int last) {
  for (int n = first; n <= last; ++n) {
    journal.acknowledged[n] = bench.put(n, bytes_of(n)).ok();
    const int earlier = n / 2;
    if (bench.get(earlier, bytes_of(earlier)) == Bench::Answer::wrong) ++outcome.wrong_bytes;
  }
}

void put_burst(Bench& bench, Journal& journal, int first) {
  const std::vector<Status> ended = bench.put_burst(first, burst_blocks, bytes_of);
  for (int i = 0; i < burst_blocks; ++i) {
    journal.acknowledged[first + i] = ended[static_cast<std::size_t>(i)].ok();
  }
}

void set_sizes(Bench& bench) {
  bench.sizes.segments = 6;
  bench.sizes.group_commit_bytes = group_bytes;
}

void run_scenario(Bench& bench, Journal& journal, FaultOutcome& outcome) {
  if (!bench.start()) return;
  put_and_get(bench, journal, outcome, 0, blocks - 1);
  put_burst(bench, journal, blocks);
  bench.store.reset();
  if (!bench.start()) return;
  const int late = blocks + burst_blocks;
  put_and_get(bench, journal, outcome, late, late + late_blocks - 1);
}

// With the fault gone and time passed, everything that was acknowledged is there, and the store
// works, after another start too.
void check_after(Bench& bench, const Journal& journal, FaultOutcome& outcome) {
  const bool any_may_be_gone = bench.machine.reclaim_in_doubt() && bench.machine.index_faults() > 0;
  bench.machine.clock().advance(Milliseconds(3'600'000));
  if (bench.store && !bench.put(1'000).ok()) {
    ++outcome.stuck;
    outcome.what.emplace_back("the store takes no put when the fault has passed");
  }
  bench.stop();
  if (!bench.start()) {
    ++outcome.stuck;
    outcome.what.push_back("the store does not open: " + bench.error().message());
    return;
  }
  if (!bench.store->opened_empty_because().empty()) {
    ++outcome.lost;
    outcome.what.emplace_back(bench.store->opened_empty_because());
  }
  for (const auto& [n, acknowledged] : journal.acknowledged) {
    const Bench::Answer answer = bench.get(n, bytes_of(n));
    const std::string block = "block " + std::to_string(n);
    if (answer == Bench::Answer::wrong) {
      ++outcome.wrong_bytes;
      outcome.what.push_back(block + " has wrong bytes");
    }
    if (answer == Bench::Answer::unreadable) {
      ++outcome.lost;
      outcome.what.push_back(block + " can't be read");
    }
    if (answer == Bench::Answer::absent && acknowledged && !bench.dropped(n) && !any_may_be_gone) {
      ++outcome.lost;
      outcome.what.push_back(block + " is lost");
    }
  }
  if (!bench.put(1'001).ok()) {
    ++outcome.stuck;
    outcome.what.emplace_back("the store takes no put after a restart");
  }
}

void add_transfers(std::vector<FaultCase>& cases, FaultTarget target, std::uint64_t count) {
  for (std::uint64_t nth = 1; nth <= count; ++nth) {
    for (const bool from_then_on : {false, true}) {
      Fault fault{.target = target, .nth = nth, .from_then_on = from_then_on};
      for (const int error : errors) {
        fault.error_number = error;
        cases.push_back({false, fault, {}});
      }
      const bool moves = target == FaultTarget::read || target == FaultTarget::write;
      const bool ends = moves || target == FaultTarget::data_sync;
      for (const FaultAction action : {FaultAction::cut, FaultAction::overreport,
                                       FaultAction::delay, FaultAction::duplicate}) {
        const bool of_transfers = action == FaultAction::cut || action == FaultAction::overreport;
        if (of_transfers ? !moves : !ends) continue;
        fault.action = action;
        cases.push_back({false, fault, {}});
      }
    }
  }
}

void add_index(std::vector<FaultCase>& cases, Operation operation, std::uint64_t count) {
  for (std::uint64_t nth = 1; nth <= count; ++nth) {
    for (const bool from_then_on : {false, true}) {
      for (const int error : errors) {
        const SimulatedDisk::Fault fault{operation, nth, from_then_on, error, false};
        cases.push_back({true, {}, fault});
      }
      if (operation != Operation::append) continue;
      cases.push_back({true, {}, {operation, nth, from_then_on, ENOSPC, true}});
    }
  }
}

}  // namespace

std::string FaultCase::name() const {
  const auto times = [](std::uint64_t nth, bool from_then_on) {
    return " " + std::to_string(nth) + (from_then_on ? " and all later: " : ": ");
  };
  if (of_index) {
    return operation_names[static_cast<std::size_t>(index.operation)] +
           times(index.nth, index.from_then_on) + std::strerror(index.error_number) +  // NOLINT
           (index.half_done ? ", half done" : "");
  }
  const std::string how = transfer.action == FaultAction::fail
                              ? std::strerror(transfer.error_number)  // NOLINT: one thread
                              : action_names[static_cast<std::size_t>(transfer.action)];
  return target_names[static_cast<std::size_t>(transfer.target)] +
         times(transfer.nth, transfer.from_then_on) + how;
}

std::vector<FaultCase> all_fault_cases(const Place& place) {
  Bench bench(place);
  set_sizes(bench);
  Journal journal;
  FaultOutcome outcome;
  run_scenario(bench, journal, outcome);
  KV_CHECK(bench.machine.reclaims_ahead() > 1, "a burst is long enough for reclaim to go ahead");
  std::vector<FaultCase> cases;
  for (std::size_t i = 0; i < storage::fault_target_count; ++i) {
    const auto target = static_cast<FaultTarget>(i);
    add_transfers(cases, target, bench.machine.transfers().operations(target));
  }
  for (std::size_t i = 0; i < SimulatedDisk::operation_count; ++i) {
    const auto operation = static_cast<Operation>(i);
    add_index(cases, operation, bench.machine.index().operations(operation));
  }
  return cases;
}

FaultOutcome run_fault_case(const Place& place, const FaultCase& fault_case) {
  Bench bench(place);
  set_sizes(bench);
  if (fault_case.of_index) {
    bench.machine.index().plan(fault_case.index);
  } else {
    bench.machine.transfers().add(fault_case.transfer);
  }
  Journal journal;
  FaultOutcome outcome;
  run_scenario(bench, journal, outcome);
  outcome.struck = bench.machine.transfers().injected() + bench.machine.index_faults();
  bench.machine.transfers().clear();
  bench.machine.index().clear_faults();
  check_after(bench, journal, outcome);
  return outcome;
}

}  // namespace kvstrata::simulation
