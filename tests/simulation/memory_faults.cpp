#include "tests/simulation/memory_faults.h"

#include "kvstrata/check.h"

namespace kvstrata::simulation {

namespace {

// A disk in memory has no rings; a real one only costs time where memory is what fails.
Disks disks_for(Call call) {
  return call >= Call::ring_setup ? Disks::real : Disks::in_memory;
}

void add_cases(std::vector<MemoryFaultCase>& cases, bool of_device, Call call,
               std::uint64_t count) {
  for (std::uint64_t nth = 1; nth <= count; ++nth) {
    for (const bool from_then_on : {false, true}) {
      for (const int error_number : errors_of(call)) {
        cases.push_back({of_device, {call, nth, from_then_on, error_number}});
      }
    }
  }
}

}  // namespace

std::vector<MemoryFaultCase> all_memory_fault_cases(const Place& place) {
  FaultyCalls in_memory, on_disk, of_device;
  (void)run_engine_scenario(place, Disks::in_memory, in_memory);
  (void)run_engine_scenario(place, Disks::real, on_disk);
  (void)run_device_scenario(place, of_device);
  for (std::size_t i = 0; i < call_count; ++i) {
    const auto call = static_cast<Call>(i);
    const std::uint64_t made = in_memory.count(call) + on_disk.count(call) + of_device.count(call);
    KV_CHECK(made > 0, "each kind of call is made, and counted, in one of the scenarios");
  }
  std::vector<MemoryFaultCase> cases;
  for (std::size_t i = 0; i < call_count; ++i) {
    const auto call = static_cast<Call>(i);
    const bool is_real = disks_for(call) == Disks::real;
    add_cases(cases, false, call, (is_real ? on_disk : in_memory).count(call));
    add_cases(cases, true, call, of_device.count(call));
  }
  return cases;
}

FaultOutcome run_memory_fault_case(const Place& place, const MemoryFaultCase& fault_case) {
  FaultyCalls calls;
  calls.plan(fault_case.fault);
  if (fault_case.of_device) return run_device_scenario(place, calls);
  return run_engine_scenario(place, disks_for(fault_case.fault.call), calls);
}

}  // namespace kvstrata::simulation
