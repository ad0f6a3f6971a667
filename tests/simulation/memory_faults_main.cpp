// memory_faults: fails every system call by which the daemon takes or registers memory in turn, in
// every way, and tells what the engine made of it. doc/simulation.md
#include "tests/simulation/memory_faults.h"

int main(int argc, char** argv) {
  using namespace kvstrata::simulation;
  const Place place;
  std::vector<MemoryFaultCase> all;
  FaultProgram program;
  program.name = "memory_faults";
  program.cases = [&] {
    all = all_memory_fault_cases(place);
    std::vector<std::string> names;
    for (const MemoryFaultCase& one : all) names.push_back(one.name());
    return names;
  };
  program.run = [&](std::size_t index) { return run_memory_fault_case(place, all.at(index)); };
  return run_fault_program(program, argc, argv);
}
