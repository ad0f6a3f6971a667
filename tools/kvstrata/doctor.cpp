#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/kvstrata/checks.h"
#include "tools/kvstrata/commands.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

const char* name_of(Check::Level level) {
  switch (level) {
    case Check::Level::good: return "ok";
    case Check::Level::limited: return "limited";
    case Check::Level::bad: return "error";
  }
  return "";
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  const std::vector<Check> checks = check_machine(options);
  bool is_bad = false;
  nlohmann::json json = nlohmann::json::array();
  for (const Check& check : checks) {
    is_bad = is_bad || check.level == Check::Level::bad;
    if (options.json) {
      json.push_back({{"name", check.name},
                      {"level", name_of(check.level)},
                      {"finding", check.finding},
                      {"remedy", check.remedy}});
      continue;
    }
    std::printf("%-8s %-16s %s\n", name_of(check.level), check.name.c_str(), check.finding.c_str());
    if (!check.remedy.empty()) std::printf("%-25s -> %s\n", "", check.remedy.c_str());
  }
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  return is_bad ? exit_damaged : exit_ok;
}

}  // namespace kvstrata::cli
