// The crash loop as a program: crash_loop [--loops N] [--seed S] [--life-mib N] [--json FILE].
// Its one test case is the loop; what it counts is told in doc/crash-testing.md.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "crash_loop.h"
#include "dying_client.h"

namespace {

kvstrata::test::CrashOptions options;
std::string json_path;
constexpr std::uint64_t loops_for_shares = 25;

}  // namespace

TEST_CASE("Whenever the daemon is killed, it comes back with all it promised and nothing else") {
  kvstrata::test::CrashLoop loop(options);
  const kvstrata::test::CrashFigures figures = loop.run();
  const std::string json = figures.json(options.seed);
  std::fputs(json.c_str(), stdout);
  if (!json_path.empty()) std::ofstream(json_path) << json;
  CHECK(figures.verdicts.corrupt == 0);
  CHECK(figures.verdicts.phantom == 0);
  CHECK(figures.verdicts.lost == 0);
  CHECK(figures.verdicts.cross_tenant == 0);
  // Without these there would have been nothing to lose.
  CHECK(figures.durable_acks > 0);
  CHECK(figures.verdicts.must_keep > 0);
  if (figures.loops < loops_for_shares) return;
  CHECK(10 * figures.kills_mid_work >= 3 * figures.loops);
  CHECK(2 * figures.restarts_not_emptied >= figures.loops);
  CHECK(figures.client_deaths > 0);
}

int main(int argc, char** argv) {
  kvstrata::test::play_dying_client(argc, argv);
  CLI::App app("Kills a real kvstratad again and again and checks what it then answers.");
  std::uint64_t seed = 0;
  std::uint64_t life_mib = options.life_bytes_max >> 20;
  app.add_option("--loops", options.loops, "Kills (5)")->check(CLI::Range(1, 1'000'000));
  const auto* given = app.add_option("--seed", seed, "Repeats a run's choices");
  app.add_option("--life-mib", life_mib, "Most that is put before a kill (64)")
      ->check(CLI::Range(5, 1'000));
  app.add_option("--json", json_path, "Writes the figures there");
  CLI11_PARSE(app, argc, argv);
  options.life_bytes_max = life_mib << 20;
  options.seed = given->count() > 0 ? seed : kvstrata::test::test_seed("crash loop");
  std::printf("crash loop: --seed %llu --loops %llu --life-mib %llu\n",
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(options.loops),
              static_cast<unsigned long long>(life_mib));
  doctest::Context context;
  return context.run();
}
