// storage_faults: fails every operation of a store's disks in turn, in every way, and tells what
// the store made of it. doc/simulation.md
#include "tests/simulation/faults.h"

int main(int argc, char** argv) {
  using namespace kvstrata::simulation;
  const Place place;
  std::vector<FaultCase> all;
  FaultProgram program;
  program.name = "storage_faults";
  program.cases = [&] {
    all = all_fault_cases(place);
    std::vector<std::string> names;
    for (const FaultCase& one : all) names.push_back(one.name());
    return names;
  };
  program.run = [&](std::size_t index) { return run_fault_case(place, all.at(index)); };
  return run_fault_program(program, argc, argv);
}
