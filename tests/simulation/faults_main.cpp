// storage_faults: fails every operation of a store's disks in turn, in every way, and tells what
// the store made of it. doc/simulation.md
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/simulation/command_line.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/watched.h"

namespace {

using namespace kvstrata::simulation;

constexpr const char* usage =
    "usage: storage_faults [OPTION VALUE]...\n"
    "  --every N    only every N-th case (default 1)\n"
    "  --case N     only case N, in this process\n"
    "  --json FILE  write the totals to FILE\n";

constexpr int patience_ms = 60'000;
constexpr std::uint64_t failures_told_max = 40;

std::size_t entries_of(const char* directory) {
  std::error_code error;
  std::filesystem::directory_iterator it(directory, error);
  std::size_t count = 0;
  for (; it != std::filesystem::directory_iterator(); it.increment(error)) ++count;
  return count;
}

// Files and threads this process has open.
std::size_t held_resources() {
  return entries_of("/proc/self/fd") + entries_of("/proc/self/task");
}

struct Totals {
  std::uint64_t struck = 0, wrong_bytes = 0, lost = 0, stuck = 0, leaks = 0, failed = 0;
};

std::string run_case(const Place& place, const FaultCase& fault_case) {
  // What the first case of a process leaves are the threads and files RocksDB keeps for all.
  static std::size_t usual = 0;
  const FaultOutcome outcome = run_fault_case(place, fault_case);
  const std::size_t held = held_resources();
  const bool leaks = usual > 0 && held > usual;
  usual = std::max(usual, held);
  if (!outcome.ok() || leaks) {
    std::printf("%s%s\n", fault_case.name().c_str(), leaks ? " leaks files or threads" : "");
    for (const std::string& what : outcome.what) std::printf("  %s\n", what.c_str());
  }
  std::ostringstream line;
  line << outcome.struck << ' ' << outcome.wrong_bytes << ' ' << outcome.lost << ' '
       << outcome.stuck << ' ' << (leaks ? 1 : 0);
  return line.str();
}

void add_line(Totals& totals, const std::string& line) {
  std::istringstream words(line);
  std::uint64_t struck = 0, wrong = 0, lost = 0, stuck = 0, leaks = 0;
  words >> struck >> wrong >> lost >> stuck >> leaks;
  totals.struck += struck > 0 ? 1 : 0;
  totals.wrong_bytes += wrong;
  totals.lost += lost;
  totals.stuck += stuck;
  totals.leaks += leaks;
  totals.failed += wrong + lost + stuck + leaks > 0 ? 1 : 0;
}

/// The list of cases costs a run, which would start threads before the fork: a child makes it.
std::uint64_t count_cases(const Place& place) {
  std::uint64_t count = 0;
  Jobs jobs;
  jobs.job = [&](std::uint64_t) { return std::to_string(all_fault_cases(place).size()); };
  jobs.told = [&](std::uint64_t, const std::string& line) {
    count = std::stoull(line);
    return true;
  };
  jobs.lost = [](std::uint64_t, const std::string&) { return false; };
  run_watched(1, patience_ms, jobs);
  return count;
}

int run_all(const Place& place, std::uint64_t every, const std::string& json) {
  const std::uint64_t cases = (count_cases(place) + every - 1) / every;
  std::printf("storage_faults --every %llu: %llu cases\n", static_cast<unsigned long long>(every),
              static_cast<unsigned long long>(cases));
  Totals totals;
  std::vector<FaultCase> all;  // in the child
  Jobs jobs;
  jobs.job = [&](std::uint64_t i) {
    if (all.empty()) all = all_fault_cases(place);
    if (i * every >= all.size()) return std::string("0 0 0 0 0");
    return run_case(place, all[i * every]);
  };
  jobs.told = [&](std::uint64_t, const std::string& line) {
    add_line(totals, line);
    return totals.failed < failures_told_max;
  };
  jobs.lost = [&](std::uint64_t i, const std::string& why) {
    std::printf("case %llu %s\n", static_cast<unsigned long long>(i * every), why.c_str());
    return ++totals.failed < failures_told_max;
  };
  const Watched watched = run_watched(cases, patience_ms, jobs);
  std::ostringstream text;
  text << "\"cases\": " << watched.done << ", \"struck\": " << totals.struck
       << ", \"wrong_bytes\": " << totals.wrong_bytes << ", \"lost\": " << totals.lost
       << ", \"stuck\": " << totals.stuck << ", \"hangs\": " << watched.hangs
       << ", \"crashes\": " << watched.crashes << ", \"leaks\": " << totals.leaks;
  std::printf("%s\n", text.str().c_str());
  if (!json.empty()) std::ofstream(json) << "{" << text.str() << "}\n";
  return totals.failed == 0 && cases > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line(argc, argv, usage);
  const Place place;
  if (!line.has("--case")) return run_all(place, line.number("--every", 1), line.text("--json"));
  const FaultCase chosen = all_fault_cases(place).at(line.number("--case", 0));
  std::printf("%s\n", chosen.name().c_str());
  std::fflush(stdout);
  const FaultOutcome outcome = run_fault_case(place, chosen);
  for (const std::string& what : outcome.what) std::printf("  %s\n", what.c_str());
  return outcome.ok() ? 0 : 1;
}
