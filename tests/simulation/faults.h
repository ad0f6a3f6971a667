// Fault cases: one scenario (put, get, reclaim, restart) in which one operation of a disk fails in
// one way, once or from then on. All of them together fail every operation in turn.
//
// Threads: one. Lifetime: a case is one run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/device/fault_script.h"
#include "tests/simulation/fault_program.h"
#include "tests/simulation/kit.h"

namespace kvstrata::simulation {

struct FaultCase {
  bool of_index = false;  ///< else of the segments' device
  storage::Fault transfer;
  SimulatedDisk::Fault index;

  std::string name() const;
};

/// Every case, in a fixed order. Counts the operations of a run without faults first.
std::vector<FaultCase> all_fault_cases(const Place& place);
FaultOutcome run_fault_case(const Place& place, const FaultCase& fault_case);

}  // namespace kvstrata::simulation
