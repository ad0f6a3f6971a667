// A fault program runs the cases of a scenario in which one operation fails each, in a child
// process that is watched, and tells what became of them: the same options and figures for all.
//
// Threads: call it before any other thread is started.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvstrata::simulation {

struct FaultOutcome {
  std::uint64_t wrong_bytes = 0;
  std::uint64_t lost = 0;  ///< acknowledged, not dropped, and not there
  std::uint64_t stuck =
      0;  ///< did not work again when the fault had passed, or gave a false reason
  std::uint64_t struck = 0;
  std::vector<std::string> what;

  bool ok() const { return wrong_bytes + lost + stuck == 0; }
};

struct FaultProgram {
  std::string name;
  /// The names of all cases, in a fixed order. Called in the child, for it may start threads.
  std::function<std::vector<std::string>()> cases;
  std::function<FaultOutcome(std::size_t)> run;
};

/// Its main(): --every N, --case N, --json FILE. Returns the exit status.
int run_fault_program(const FaultProgram& program, int argc, char** argv);

}  // namespace kvstrata::simulation
