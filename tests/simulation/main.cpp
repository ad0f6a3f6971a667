// storage_simulation: runs the storage on simulated machines, one for each seed, and tells which
// seeds found something wrong. doc/simulation.md
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "tests/simulation/command_line.h"
#include "tests/simulation/kit.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/watched.h"

namespace {

using namespace kvstrata::simulation;

constexpr const char* usage =
    "usage: storage_simulation [OPTION VALUE]...\n"
    "  --seeds N     how many runs (default 100)\n"
    "  --first SEED  the first one's seed; the others follow (default: drawn)\n"
    "  --seed SEED   only this one, told step by step\n"
    "  --json FILE   write the totals to FILE\n";

constexpr int patience_ms = 120'000;
constexpr std::uint64_t failures_told_max = 10;

void tell(const Report& report) {
  std::ostringstream text;
  text << "seed " << report.seed << ": " << report.lives << " lives, " << report.cuts
       << " power cuts, " << report.steps << " steps, " << report.puts << " puts, " << report.reads
       << " reads, " << report.reclaimed << " segments reclaimed, outcome " << std::hex
       << report.outcome << "\n";
  for (const std::string& failure : report.failures) text << "  " << failure << "\n";
  std::fputs(text.str().c_str(), stdout);
}

/// The sums over all runs.
struct Totals {
  std::uint64_t failed = 0, lives = 0, cuts = 0, puts = 0, reads = 0, reclaimed = 0;
};

void add_line(Totals& totals, const std::string& line) {
  std::istringstream words(line);
  std::uint64_t failed = 0, lives = 0, cuts = 0, puts = 0, reads = 0, reclaimed = 0;
  words >> failed >> lives >> cuts >> puts >> reads >> reclaimed;
  totals.failed += failed;
  totals.lives += lives;
  totals.cuts += cuts;
  totals.puts += puts;
  totals.reads += reads;
  totals.reclaimed += reclaimed;
}

std::string run_seed(std::uint64_t seed, const Place& place) {
  const Report report = Simulation(seed, place.store()).run();
  if (!report.failures.empty()) tell(report);
  std::ostringstream line;
  line << (report.failures.empty() ? 0 : 1) << ' ' << report.lives << ' ' << report.cuts << ' '
       << report.puts << ' ' << report.reads << ' ' << report.reclaimed;
  return line.str();
}

int run_seeds(std::uint64_t first, std::uint64_t seeds, const std::string& json) {
  const Place place;
  Totals totals;
  const auto began = std::chrono::steady_clock::now();
  Jobs jobs;
  jobs.job = [&](std::uint64_t i) { return run_seed(first + i, place); };
  jobs.told = [&](std::uint64_t, const std::string& line) {
    add_line(totals, line);
    return totals.failed < failures_told_max;
  };
  jobs.lost = [&](std::uint64_t i, const std::string& why) {
    std::printf("seed %llu %s\n", static_cast<unsigned long long>(first + i), why.c_str());
    return ++totals.failed < failures_told_max;
  };
  const Watched watched = run_watched(seeds, patience_ms, jobs);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::ostringstream text;
  text << watched.done << " seeds, " << totals.failed << " failed, " << totals.lives << " lives, "
       << totals.cuts << " power cuts, " << totals.puts << " puts, " << totals.reads << " reads, "
       << totals.reclaimed << " segments reclaimed, "
       << static_cast<std::uint64_t>(static_cast<double>(watched.done) / took.count())
       << " seeds/s\n";
  std::fputs(text.str().c_str(), stdout);
  if (!json.empty()) {
    std::ofstream(json) << "{\"sim_seeds\": " << watched.done
                        << ", \"sim_failed\": " << totals.failed << ", \"sim_first\": " << first
                        << ", \"sim_power_cuts\": " << totals.cuts
                        << ", \"hangs\": " << watched.hangs << ", \"crashes\": " << watched.crashes
                        << "}\n";
  }
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line(argc, argv, usage);
  const std::uint64_t first = line.number("--seed", line.number("--first", std::random_device{}()));
  const std::uint64_t seeds = line.has("--seed") ? 1 : line.number("--seeds", 100);
  std::printf("storage_simulation --first %llu --seeds %llu\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(seeds));
  std::fflush(stdout);
  if (!line.has("--seed")) return run_seeds(first, seeds, line.text("--json"));
  const Place place;
  const Report report = Simulation(first, place.store(), true).run();
  tell(report);
  return report.failures.empty() ? 0 : 1;
}
