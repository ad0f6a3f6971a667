// What `kvstrata doctor` looks at: the machine's limits, and what each means for the daemon.
#pragma once

#include <string>
#include <vector>

#include "tools/kvstrata/commands.h"

namespace kvstrata::cli {

struct Check {
  enum class Level : std::uint8_t { good, limited, bad };
  std::string name;
  Level level = Level::good;
  std::string finding;
  std::string remedy;  ///< empty: nothing to do
};

std::vector<Check> check_machine(const DoctorOptions& options);

}  // namespace kvstrata::cli
