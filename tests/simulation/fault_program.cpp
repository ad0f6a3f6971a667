#include "tests/simulation/fault_program.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/simulation/command_line.h"
#include "tests/simulation/watched.h"

namespace kvstrata::simulation {

namespace {

constexpr int patience_ms = 60'000;
constexpr std::uint64_t failures_told_max = 40;

std::string usage_of(const FaultProgram& program) {
  return "usage: " + program.name +
         " [OPTION VALUE]...\n"
         "  --every N    only every N-th case (default 1)\n"
         "  --case N     only case N, in this process\n"
         "  --json FILE  write the totals to FILE\n";
}

// RocksDB's threads are shared by all stores of a process, io_uring's are the kernel's: both come
// and go by themselves.
bool is_ours(const std::string& thread) {
  return !thread.empty() && !thread.starts_with("rocksdb") && !thread.starts_with("iou-");
}

std::vector<std::filesystem::path> entries_of(const char* directory) {
  std::error_code error;
  std::filesystem::directory_iterator it(directory, error);
  std::vector<std::filesystem::path> entries;
  for (; it != std::filesystem::directory_iterator(); it.increment(error)) {
    entries.push_back(it->path());
  }
  return entries;
}

/// Files this process has open, its threads, and its mappings of shared memory, by name.
std::vector<std::string> held_resources() {
  std::vector<std::string> held;
  for (const auto& file : entries_of("/proc/self/fd")) {
    std::error_code error;
    const std::filesystem::path to = std::filesystem::read_symlink(file, error);
    if (!error) held.push_back("file " + to.string());
  }
  for (const auto& task : entries_of("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task / "comm"), name);
    if (is_ours(name)) held.push_back("thread " + name);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") != std::string::npos) held.push_back("memory " + line);
  }
  return held;
}

/// What is held once it is no more than `usual`, or after five seconds. A thread that was joined
/// is still listed until the kernel has buried it, and one that has just begun has no name yet.
std::vector<std::string> held_in_the_end(std::size_t usual) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(5);
  std::vector<std::string> held = held_resources();
  while (held.size() > usual && Clock::now() < end) {
    std::this_thread::yield();
    held = held_resources();
  }
  return held;
}

struct Totals {
  std::uint64_t struck = 0, wrong_bytes = 0, lost = 0, stuck = 0, leaks = 0, failed = 0;
};

std::string run_case(const FaultProgram& program, std::size_t index, const std::string& name) {
  // What the first case of a process leaves are the files libraries keep for all.
  static std::size_t usual = 0;
  const FaultOutcome outcome = program.run(index);
  const std::vector<std::string> held = usual > 0 ? held_in_the_end(usual) : held_resources();
  const bool leaks = usual > 0 && held.size() > usual;
  usual = std::max(usual, held.size());
  if (!outcome.ok() || leaks) {
    std::printf("case %zu: %s%s\n", index, name.c_str(),
                leaks ? " leaks files, threads or memory" : "");
    for (const std::string& what : outcome.what) std::printf("  %s\n", what.c_str());
    if (leaks) {
      for (const std::string& what : held) std::printf("  holds %s\n", what.c_str());
    }
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
std::uint64_t count_cases(const FaultProgram& program) {
  std::uint64_t count = 0;
  Jobs jobs;
  jobs.job = [&](std::uint64_t) { return std::to_string(program.cases().size()); };
  jobs.told = [&](std::uint64_t, const std::string& line) {
    count = std::stoull(line);
    return true;
  };
  jobs.lost = [](std::uint64_t, const std::string&) { return false; };
  run_watched(1, patience_ms, jobs);
  return count;
}

int run_all(const FaultProgram& program, std::uint64_t every, const std::string& json) {
  const std::uint64_t cases = (count_cases(program) + every - 1) / every;
  std::printf("%s --every %llu: %llu cases\n", program.name.c_str(),
              static_cast<unsigned long long>(every), static_cast<unsigned long long>(cases));
  Totals totals;
  std::vector<std::string> names;  // in the child
  Jobs jobs;
  jobs.job = [&](std::uint64_t i) {
    if (names.empty()) names = program.cases();
    if (i * every >= names.size()) return std::string("0 0 0 0 0");
    return run_case(program, i * every, names[i * every]);
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

int run_fault_program(const FaultProgram& program, int argc, char** argv) {
  const CommandLine line(argc, argv, usage_of(program));
  if (!line.has("--case")) return run_all(program, line.number("--every", 1), line.text("--json"));
  const std::size_t index = line.number("--case", 0);
  std::printf("%s\n", program.cases().at(index).c_str());
  std::fflush(stdout);
  const FaultOutcome outcome = program.run(index);
  for (const std::string& what : outcome.what) std::printf("  %s\n", what.c_str());
  return outcome.ok() ? 0 : 1;
}

}  // namespace kvstrata::simulation
