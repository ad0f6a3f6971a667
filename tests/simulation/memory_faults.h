// Memory faults: an engine (puts by value and by staging memory, gets, eviction, reclaim, restart)
// and a device with registered buffers, in which one system call that takes or registers memory
// fails, once or from then on. All cases together fail every such call in turn.
//
// Threads: one. Lifetime: a case is one run.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/call_faults.h"
#include "tests/simulation/engine_bench.h"
#include "tests/simulation/fault_program.h"
#include "tests/simulation/kit.h"

namespace kvstrata::simulation {

struct MemoryFaultCase {
  bool of_device = false;  ///< else of the engine
  CallFault fault;

  std::string name() const { return (of_device ? "device: " : "engine: ") + fault.name(); }
};

/// Every case, in a fixed order. Counts the calls of runs without faults first.
std::vector<MemoryFaultCase> all_memory_fault_cases(const Place& place);
FaultOutcome run_memory_fault_case(const Place& place, const MemoryFaultCase& fault_case);

// The two scenarios. Each runs with the fault that is planned, then without, and judges.
FaultOutcome run_engine_scenario(const Place& place, Disks disks, FaultyCalls& calls);
FaultOutcome run_device_scenario(const Place& place, FaultyCalls& calls);

}  // namespace kvstrata::simulation
