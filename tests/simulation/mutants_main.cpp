// storage_mutants: plants the mistakes of storage/mutant.h, one at a time, and tells which seed of
// the simulation notices each. One that none notices is a hole in the simulation.
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include "storage/mutant.h"
#include "tests/simulation/command_line.h"
#include "tests/simulation/kit.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/watched.h"

namespace {

using namespace kvstrata::simulation;
using kvstrata::storage::Mutant;

constexpr const char* usage =
    "usage: storage_mutants [OPTION VALUE]...\n"
    "  --seeds N     at most so many for each mutant (default 2000)\n"
    "  --first SEED  the first one (default 1)\n"
    "  --json FILE   write the totals to FILE\n";

constexpr int patience_ms = 60'000;
constexpr int skipped = 77;  // as meson understands it

/// The first of the seeds that fails with this mistake in place, and how.
struct Kill {
  std::uint64_t seed = 0;
  std::string how;
};

std::optional<Kill> find_kill(Mutant mutant, std::uint64_t first, std::uint64_t seeds,
                              const Place& place) {
  std::optional<Kill> kill;
  const auto killed = [&](std::uint64_t i, const std::string& how) {
    kill = Kill{first + i, how};
    return false;
  };
  Jobs jobs;
  jobs.job = [&](std::uint64_t i) {
    kvstrata::storage::activate(mutant);
    const Report report = Simulation(first + i, place.store()).run();
    return report.failures.empty() ? std::string() : report.failures.front();
  };
  jobs.told = [&](std::uint64_t i, const std::string& failure) {
    return failure.empty() || killed(i, failure);
  };
  jobs.lost = killed;
  run_watched(seeds, patience_ms, jobs);
  return kill;
}

/// Whether a seed notices this mistake, and nothing without it.
bool is_killed(Mutant mutant, std::uint64_t first, std::uint64_t seeds, const Place& place) {
  const std::string name(kvstrata::storage::mutant_names[static_cast<std::size_t>(mutant)]);
  const std::optional<Kill> kill = find_kill(mutant, first, seeds, place);
  if (!kill) {
    std::printf("%s: ALIVE after %llu seeds\n", name.c_str(),
                static_cast<unsigned long long>(seeds));
    return false;
  }
  std::printf("%s: killed by seed %llu: %s\n", name.c_str(),
              static_cast<unsigned long long>(kill->seed), kill->how.c_str());
  const std::optional<Kill> without = find_kill(Mutant::none, kill->seed, 1, place);
  if (without) std::printf("  but it fails without it too: %s\n", without->how.c_str());
  return !without;
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line(argc, argv, usage);
  if (!kvstrata::storage::has_mutants) {
    std::printf("built without -Dmutants=true\n");
    return skipped;
  }
  const Place place;
  const std::uint64_t first = line.number("--first", 1);
  std::printf("storage_mutants --first %llu\n", static_cast<unsigned long long>(first));
  std::uint64_t killed = 0;
  constexpr std::uint64_t mutants = kvstrata::storage::mutant_names.size() - 1;
  for (std::uint64_t i = 1; i <= mutants; ++i) {
    const bool dead =
        is_killed(static_cast<Mutant>(i), first, line.number("--seeds", 2'000), place);
    killed += dead ? 1 : 0;
  }
  std::printf("%llu of %llu mutants killed\n", static_cast<unsigned long long>(killed),
              static_cast<unsigned long long>(mutants));
  if (line.has("--json")) {
    std::ofstream(line.text("--json"))
        << "{\"mutants\": " << mutants << ", \"mutants_killed\": " << killed << "}\n";
  }
  return killed == mutants ? 0 : 1;
}
