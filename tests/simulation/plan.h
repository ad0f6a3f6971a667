// A Plan is what a seed decides about a run before it begins: sizes, faults, how each life ends.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "storage/device/fault_script.h"
#include "tests/simulation/machine.h"

namespace kvstrata::simulation {

/// One life of the store, from opening it to closing it or to the power cut.
struct LifePlan {
  Sizes sizes;
  int steps = 0;
  std::uint64_t cut_at_operation = 0;  ///< 0: not
  std::string cut_at_point;            ///< empty: not
  std::uint64_t cut_at_nth = 0;
  storage::FaultRates transfers;             ///< of segments
  std::vector<storage::Fault> names_faults;  ///< of opening, allocating, removing files
  std::uint64_t fail_sync = 0;               ///< the n-th; 0: none
  std::vector<SimulatedDisk::Fault> index_faults;

  bool transfers_may_fail() const {
    return transfers.read_fails > 0 || transfers.write_fails > 0 || !names_faults.empty();
  }
};

struct Plan {
  int spaces = 2;
  int numbers = 32;             ///< of block names in each
  std::vector<LifePlan> lives;  ///< the last one without faults or cut
};

Plan draw_plan(std::mt19937_64& random);

/// A number below `n`.
inline std::uint64_t below(std::mt19937_64& random, std::uint64_t n) {
  return random() % n;
}
inline bool one_in(std::mt19937_64& random, std::uint64_t n) {
  return random() % n == 0;
}

}  // namespace kvstrata::simulation
