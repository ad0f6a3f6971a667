// storage_bench: what the storage path costs, against fio and the machine's limits measured in the
// same run. `tools/dev bench storage [--json FILE]`. Exits with 2 if fio was not as fast as itself.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "bench/common/figures.h"
#include "bench/common/scratch_directory.h"
#include "bench/storage/amplification_bench.h"
#include "bench/storage/start_bench.h"
#include "bench/storage/transfer_bench.h"

namespace kvstrata::bench {

namespace {

struct Options {
  std::string json;
  std::string only;
  std::string directory = std::filesystem::temp_directory_path();
  bool quick = false;
};

int run(const Options& options) {
  Figures figures;
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  bool calm = true;
  if (wanted("read") || wanted("write")) {
    const ScratchDirectory scratch(options.directory);
    TransferPlan plan;
    plan.scratch = scratch.path();
    plan.reads = wanted("read");
    plan.writes = wanted("write");
    if (options.quick) {
      plan.segments = 8;
      plan.rounds = 3;
      plan.seconds = 0.5;
      plan.null_tolerance = 0.5;  // so few and short turns say little
    }
    calm = bench_transfers(plan, figures);
  }
  if (wanted("start")) {
    const ScratchDirectory scratch(options.directory);
    bench_start({scratch.path(), options.quick ? 100'000U : 2'000'000U}, figures);
  }
  if (wanted("amplification")) {
    const ScratchDirectory scratch(options.directory);
    bench_amplification({scratch.path(), options.quick ? 2U : 10U}, figures);
  }
  figures.write_json(options.json);
  return calm ? 0 : 2;
}

}  // namespace

}  // namespace kvstrata::bench

int main(int argc, char** argv) {
  kvstrata::bench::Options options;
  CLI::App app("Measures the storage path of kvstratad beside fio");
  app.add_option("--json", options.json, "write the figures to this file");
  app.add_option("--only", options.only, "just this part: read, write, start or amplification")
      ->check(CLI::IsMember({"read", "write", "start", "amplification"}));
  app.add_option("--directory", options.directory, "where 8 GiB are free, on the disk to measure")
      ->capture_default_str();
  app.add_flag("--quick", options.quick, "small and short: to see that it runs, not for figures");
  CLI11_PARSE(app, argc, argv);
  return kvstrata::bench::run(options);
}
