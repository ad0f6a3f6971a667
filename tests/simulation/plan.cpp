#include "tests/simulation/plan.h"

#include <array>
#include <cerrno>

namespace kvstrata::simulation {

namespace {

constexpr std::array<const char*, 7> points = {
    "before-data-sync",     "after-data-sync",     "before-index-write",  "after-index-write",
    "before-reclaim-index", "after-reclaim-index", "before-segment-reuse"};

void draw_cut(std::mt19937_64& random, LifePlan& life) {
  switch (below(random, 4)) {
    case 0: break;  // closes in good order
    case 1:
      life.cut_at_point = points[below(random, points.size())];
      life.cut_at_nth = 1 + below(random, 8);
      break;
    default:
      // Some 60 operations open a store, so that small numbers cut its recovery.
      life.cut_at_operation = 1 + below(random, std::uint64_t{1} << (4 + below(random, 7)));
      break;
  }
}

void draw_harmless_faults(std::mt19937_64& random, LifePlan& life) {
  life.transfers.read_cut = 0.1;
  life.transfers.write_cut = 0.1;
  life.transfers.again = 0.05;
  life.transfers.delay = one_in(random, 2) ? 0.1 : 0;
  life.transfers.duplicate = one_in(random, 2) ? 0.1 : 0;
}

storage::Fault draw_names_fault(std::mt19937_64& random) {
  using storage::FaultTarget;
  constexpr std::array targets = {FaultTarget::open, FaultTarget::allocate, FaultTarget::size,
                                  FaultTarget::remove, FaultTarget::sync_directory};
  storage::Fault fault;
  fault.target = targets[below(random, targets.size())];
  fault.nth = 1 + below(random, 12);
  fault.error_number = one_in(random, 2) ? ENOSPC : EIO;
  return fault;
}

SimulatedDisk::Fault draw_index_fault(std::mt19937_64& random) {
  SimulatedDisk::Fault fault;
  fault.operation =
      static_cast<SimulatedDisk::Operation>(below(random, SimulatedDisk::operation_count));
  fault.nth = 1 + below(random, std::uint64_t{1} << (1 + below(random, 7)));
  fault.from_then_on = one_in(random, 4);
  fault.error_number = one_in(random, 3) ? ENOSPC : EIO;
  fault.half_done = one_in(random, 2);
  return fault;
}

void draw_failures(std::mt19937_64& random, LifePlan& life) {
  if (one_in(random, 2)) life.transfers.read_fails = 0.02;
  if (one_in(random, 2)) life.transfers.write_fails = 0.03;
  if (one_in(random, 3)) life.names_faults.push_back(draw_names_fault(random));
  if (one_in(random, 3)) life.fail_sync = 1 + below(random, 12);
  if (one_in(random, 2)) life.index_faults.push_back(draw_index_fault(random));
}

}  // namespace

Plan draw_plan(std::mt19937_64& random) {
  Plan plan;
  plan.spaces = 1 + static_cast<int>(below(random, 3));
  plan.numbers = 8 << below(random, 4);
  Sizes sizes;
  sizes.segments = 6 + below(random, 4);
  const std::uint64_t lives = 2 + below(random, 3);
  const bool harmless = one_in(random, 2);
  const bool failing = one_in(random, 3);
  for (std::uint64_t i = 0; i + 1 < lives; ++i) {
    LifePlan life;
    if (i > 0 && one_in(random, 8)) sizes.segment_bytes = one_in(random, 2) ? 64_KiB : 80_KiB;
    if (i > 0 && one_in(random, 8)) sizes.segments = 6 + below(random, 6);
    life.sizes = sizes;
    life.steps = 4 + static_cast<int>(below(random, 28));
    draw_cut(random, life);
    if (harmless) draw_harmless_faults(random, life);
    if (failing) draw_failures(random, life);
    plan.lives.push_back(life);
  }
  LifePlan last;
  last.sizes = sizes;
  last.steps = 6;
  plan.lives.push_back(last);
  return plan;
}

}  // namespace kvstrata::simulation
