// The stressor as a program: stressor [--minutes M] [--seed S] [--admission P] [--json FILE]. Its
// one test case is the stress; what it counts is told in doc/crash-testing.md.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "stressor.h"

namespace {

kvstrata::test::StressOptions options;
std::string json_path;

}  // namespace

TEST_CASE("Whatever clients do at once, nobody reads what can't have been there") {
  const kvstrata::test::StressFigures figures = kvstrata::test::stress(options);
  const std::string json = figures.json(options.seed);
  std::fputs(json.c_str(), stdout);
  if (!json_path.empty()) std::ofstream(json_path) << json;
  CHECK(figures.impossible_reads() == 0);
  CHECK(figures.counts.reads_judged > 0);
}

int main(int argc, char** argv) {
  CLI::App app("Runs clients against a daemon at once and checks every byte they read.");
  std::uint64_t seed = 0;
  double minutes = 0.05;
  const auto* given = app.add_option("--seed", seed, "Repeats a run's choices");
  app.add_option("--minutes", minutes, "How long (0.05)")->check(CLI::Range(0.01, 100'000.0));
  const auto* policy =
      app.add_option("--admission", options.admission, "all or second-use (as the seed decides)");
  app.add_option("--json", json_path, "Writes the figures there");
  CLI11_PARSE(app, argc, argv);
  options.duration = std::chrono::milliseconds(static_cast<std::int64_t>(minutes * 60'000));
  options.seed = given->count() > 0 ? seed : kvstrata::test::test_seed("stressor");
  if (policy->count() == 0) options.admission = options.seed % 2 == 0 ? "all" : "second-use";
  std::printf("stressor: --seed %llu --minutes %g --admission %s\n",
              static_cast<unsigned long long>(options.seed), minutes, options.admission.c_str());
  std::fflush(stdout);
  doctest::Context context;
  return context.run();
}
