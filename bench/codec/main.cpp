// codec_bench: size and pace of the codecs on a real model's KV cache, against other coders and
// memcpy in the same run, on one core. `tools/dev bench codec [--json FILE]` makes the cache first.
#include <sched.h>

#include <CLI/CLI.hpp>

#include "bench/codec/linear_bench.h"
#include "bench/codec/static_bench.h"
#include "bench/common/figures.h"

namespace kvstrata::bench {

namespace {

struct Options {
  std::string kv;
  std::string json;
  std::string only;
  double rope_theta = 100'000;  // SmolLM2's
  bool quick = false;
};

void stay_on_this_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(sched_getcpu(), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

int run(const Options& options) {
  stay_on_this_core();
  Figures figures;
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  const KvBlocks fit = load_kv(options.kv + "/fit.safetensors");
  const KvBlocks test = load_kv(options.kv + "/test.safetensors");
  if (wanted("size")) bench_static_size(fit, test, figures);
  if (wanted("pace")) {
    StaticPlan plan;
    if (options.quick) plan = {.rounds = 3, .far_bytes = 1};
    bench_static_pace(fit, test, plan, figures);
  }
  if (wanted("linear")) bench_linear(fit, test, options.rope_theta, figures);
  figures.write_json(options.json);
  return 0;
}

}  // namespace

}  // namespace kvstrata::bench

int main(int argc, char** argv) {
  kvstrata::bench::Options options;
  CLI::App app("Measures the codecs on blocks of a real model's KV cache");
  app.add_option("--kv", options.kv, "folder that bench/codec/dump_kv.py wrote")->required();
  app.add_option("--json", options.json, "write the figures to this file");
  app.add_option("--only", options.only, "just this part: size, pace or linear")
      ->check(CLI::IsMember({"size", "pace", "linear"}));
  app.add_option("--rope-theta", options.rope_theta, "of the model")->capture_default_str();
  app.add_flag("--quick", options.quick, "few rounds: to see that it runs, not for figures");
  CLI11_PARSE(app, argc, argv);
  return kvstrata::bench::run(options);
}
