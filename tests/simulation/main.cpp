// storage_simulation: runs the storage on simulated machines, one for each seed, and tells which
// seeds found something wrong. doc/simulation.md
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include "tests/simulation/kit.h"
#include "tests/simulation/simulation.h"

namespace {

using kvstrata::simulation::Place;
using kvstrata::simulation::Report;
using kvstrata::simulation::Simulation;

constexpr const char* usage =
    "usage: storage_simulation [--seeds N] [--first SEED] [--seed SEED] [--json FILE]\n"
    "  --seeds N     how many runs (default 100)\n"
    "  --first SEED  the first one's seed; the others follow (default: drawn)\n"
    "  --seed SEED   only this one, told in full\n"
    "  --json FILE   write the totals to FILE\n";

struct Options {
  std::uint64_t seeds = 100;
  std::uint64_t first = std::random_device{}();
  bool verbose = false;
  std::string json;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || i + 1 == argc) {
      std::fputs(usage, name == "--help" ? stdout : stderr);
      std::exit(name == "--help" ? 0 : 2);
    }
    const char* value = argv[++i];
    if (name == "--seeds") options.seeds = std::strtoull(value, nullptr, 10);
    if (name == "--first") options.first = std::strtoull(value, nullptr, 10);
    if (name == "--json") options.json = value;
    if (name != "--seed") continue;
    options.first = std::strtoull(value, nullptr, 10);
    options.seeds = 1;
    options.verbose = true;
  }
  return options;
}

void tell(const Report& report) {
  std::printf(
      "seed %llu: %llu lives, %llu power cuts, %llu steps, %llu puts, %llu reads, "
      "%llu segments reclaimed, outcome %016llx\n",
      static_cast<unsigned long long>(report.seed), static_cast<unsigned long long>(report.lives),
      static_cast<unsigned long long>(report.cuts), static_cast<unsigned long long>(report.steps),
      static_cast<unsigned long long>(report.puts), static_cast<unsigned long long>(report.reads),
      static_cast<unsigned long long>(report.reclaimed),
      static_cast<unsigned long long>(report.outcome));
  for (const std::string& failure : report.failures) std::printf("  %s\n", failure.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::printf("storage_simulation --first %llu --seeds %llu\n",
              static_cast<unsigned long long>(options.first),
              static_cast<unsigned long long>(options.seeds));
  std::fflush(stdout);
  constexpr std::uint64_t failures_told_max = 10;
  const Place place;
  const auto began = std::chrono::steady_clock::now();
  Report total;
  std::uint64_t failed = 0, runs = 0;
  for (; runs < options.seeds && failed < failures_told_max; ++runs) {
    const Report report = Simulation(options.first + runs, place.store(), options.verbose).run();
    if (options.verbose || !report.failures.empty()) tell(report);
    failed += report.failures.empty() ? 0 : 1;
    total.lives += report.lives;
    total.cuts += report.cuts;
    total.steps += report.steps;
    total.puts += report.puts;
    total.reads += report.reads;
    total.reclaimed += report.reclaimed;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf(
      "%llu seeds, %llu failed, %llu lives, %llu power cuts, %llu puts, %llu reads, "
      "%llu segments reclaimed, %.1f seeds/s\n",
      static_cast<unsigned long long>(runs), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(total.lives), static_cast<unsigned long long>(total.cuts),
      static_cast<unsigned long long>(total.puts), static_cast<unsigned long long>(total.reads),
      static_cast<unsigned long long>(total.reclaimed), static_cast<double>(runs) / seconds);
  if (!options.json.empty()) {
    std::ofstream(options.json) << "{\"sim_seeds\": " << runs << ", \"sim_failed\": " << failed
                                << ", \"sim_first\": " << options.first
                                << ", \"sim_power_cuts\": " << total.cuts << "}\n";
  }
  return failed == 0 ? 0 : 1;
}
