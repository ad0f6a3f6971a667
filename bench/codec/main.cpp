// codec_bench: size and pace of the codecs on a real model's KV cache, against other coders and
// memcpy in the same run, on one core. `tools/dev bench codec [--json FILE]` makes the cache first.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "bench/codec/e2e_bench.h"
#include "bench/codec/layout_bench.h"
#include "bench/codec/linear_bench.h"
#include "bench/codec/static_bench.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

namespace {

struct Options {
  std::string kv, code_kv;
  std::string json;
  std::string only;
  EndToEndPlan end_to_end;
  bool quick = false;
};

void stay_on_this_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(sched_getcpu(), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

constexpr std::size_t few_blocks = 96;

int run(const Options& options) {
  Figures figures;
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  const KvBlocks test = load_kv(options.kv + "/test.safetensors");
  // What the static codec's parts look at, and all for the linear one.
  KvBlocks fit = load_kv(options.kv + "/fit.safetensors", few_blocks);
  if (wanted("e2e")) {
    EndToEndPlan plan = options.end_to_end;
    if (options.quick) plan = {plan.daemon, plan.directory, 16, 2, 0.5};
    bench_end_to_end(fit, plan, figures);
  }
  stay_on_this_core();  // from here on
  if (wanted("size")) bench_static_size(fit, test, figures);
  StaticPlan plan;
  if (options.quick) plan = {.rounds = 3, .far_bytes = 1};
  if (wanted("pace")) bench_static_pace(fit, test, plan, figures);
  if (wanted("layouts")) bench_layouts(fit, test, plan.rounds, figures);
  if (wanted("linear")) {
    fit = load_kv(options.kv + "/fit.safetensors", options.quick ? few_blocks : SIZE_MAX);
    std::optional<CodeBlocks> code;
    if (!options.code_kv.empty()) {
      code = {load_kv(options.code_kv + "/fit.safetensors"),
              load_kv(options.code_kv + "/test.safetensors")};
    }
    bench_linear(fit, test, code ? &*code : nullptr, figures);
  }
  figures.write_json(options.json);
  return 0;
}

}  // namespace

}  // namespace kvstrata::bench

int main(int argc, char** argv) {
  kvstrata::bench::Options options;
  options.end_to_end.directory = std::filesystem::temp_directory_path();
  if (const char* daemon = std::getenv("KVSTRATAD")) options.end_to_end.daemon = daemon;
  CLI::App app("Measures the codecs on blocks of a real model's KV cache");
  app.add_option("--kv", options.kv, "folder that bench/codec/dump_kv.py wrote")->required();
  app.add_option("--json", options.json, "write the figures to this file");
  app.add_option("--only", options.only, "just this part: e2e, size, pace, layouts or linear")
      ->check(CLI::IsMember({"e2e", "size", "pace", "layouts", "linear"}));
  app.add_option("--daemon", options.end_to_end.daemon, "kvstratad to measure")
      ->capture_default_str();
  app.add_option("--directory", options.end_to_end.directory,
                 "where 4 GiB are free, on the disk to measure")
      ->capture_default_str();
  app.add_option("--code-kv", options.code_kv, "the same of program code");
  app.add_flag("--quick", options.quick, "few rounds: to see that it runs, not for figures");
  CLI11_PARSE(app, argc, argv);
  return kvstrata::bench::run(options);
}
