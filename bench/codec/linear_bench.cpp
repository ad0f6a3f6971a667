#include "bench/codec/linear_bench.h"

#include <algorithm>
#include <cstdio>

#include "bench/common/measure.h"
#include "bench/common/must.h"
#include "bench/common/progress.h"
#include "codec/linear/linear_model.h"

namespace kvstrata::bench {

namespace {

std::vector<codec::PlacedPayload> placed(const KvBlocks& blocks) {
  std::vector<codec::PlacedPayload> all;
  for (std::size_t i = 0; i < blocks.payloads.size(); ++i) {
    all.push_back({blocks.payloads[i], blocks.first_positions[i]});
  }
  return all;
}

/// Multiply-adds a scalar: the map of the layers below, and on average half of the joint step.
double multiply_adds(const codec::LinearModel& model) {
  const auto channels = static_cast<double>(model.layers.front().mean.size());
  double sum = 0;
  for (const codec::LinearLayer& layer : model.layers) sum += layer.below * channels + channels / 2;
  return sum / static_cast<double>(model.layers.size());
}

}  // namespace

void bench_linear(const KvBlocks& fit, const KvBlocks& test, double rope_theta, Figures& figures) {
  codec::LinearFitOptions options;
  options.rope = {.rotary_dim = fit.shape.head_dim_k, .theta = rope_theta};
  std::printf("  linear: fitting %zu blocks, some minutes\n", fit.payloads.size());
  std::fflush(stdout);
  codec::LinearModel model;
  const double fit_seconds =
      seconds_of([&] { model = must(codec::fit_linear(fit.shape, placed(fit), options), "fit"); });
  std::uint64_t bytes = 0;
  double decode_seconds = 0;
  Progress progress("linear: blocks coded", test.payloads.size());
  std::size_t done = 0;
  for (const codec::PlacedPayload& payload : placed(test)) {
    const ByteVector encoded = codec::encode_linear(model, payload);
    ByteVector decoded(payload.bytes.size());
    decode_seconds += seconds_of([&] {
      must(codec::decode_linear(model, encoded, payload.first_position, decoded), "decode");
    });
    if (!std::ranges::equal(decoded, payload.bytes)) fail("linear: other bytes came back");
    bytes += encoded.size();
    progress.at(++done);
  }
  const double scalar_bits = 8.0 * bytes_per_scalar(test.shape.dtype);
  const double ratio = static_cast<double>(test.bytes()) / static_cast<double>(bytes);
  const auto fit_tokens = static_cast<double>(fit.payloads.size() * fit.shape.tokens);
  figures.add("linear_bits", scalar_bits / ratio, "bits/scalar");
  figures.add("linear_ratio", ratio);
  figures.add("linear_fit_tokens", fit_tokens);
  figures.add("linear_fit_s", fit_seconds, "s");
  figures.add("linear_multiply_adds", multiply_adds(model), "a scalar");
  figures.add("linear_decode_mb_s", static_cast<double>(test.bytes()) / decode_seconds / 1e6,
              "MB/s");
}

}  // namespace kvstrata::bench
