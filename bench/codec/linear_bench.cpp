#include "bench/codec/linear_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/codec/static_bench.h"
#include "bench/common/measure.h"
#include "bench/common/must.h"
#include "codec/linear/linear_parameters.h"
#include "codec/linear/linear_pass.h"
#include "codec/linear/number.h"
#include "codec/linear/rope_search.h"

namespace kvstrata::bench {

namespace {

using codec::LinearParameters;
using codec::SimdLevel;
using Parameters = std::shared_ptr<const LinearParameters>;

/// Parameters of SmolLM2-135M without its embeddings, over 30 layers of 384 channels of K and V.
constexpr double prefill_multiply_adds = 9'216;
constexpr std::uint32_t layers_below = 3;

std::vector<codec::PlacedPayload> placed(const KvBlocks& blocks) {
  std::vector<codec::PlacedPayload> all;
  for (std::size_t i = 0; i < blocks.payloads.size(); ++i) {
    all.push_back({blocks.payloads[i], blocks.first_positions[i]});
  }
  return all;
}

/// A model, and how long the fit took.
struct Fitted {
  Parameters parameters;
  double seconds = 0;
};

Fitted fit(const codec::BlockShape& shape, const std::vector<codec::PlacedPayload>& payloads,
           std::uint32_t below = layers_below) {
  const auto tokens = static_cast<unsigned long long>(payloads.size() * shape.tokens);
  std::printf("  linear: fitting %llu tokens, %u layers below\n", tokens, below);
  std::fflush(stdout);
  codec::LinearFitOptions options;
  options.layers_below = below;
  options.rope = codec::find_rope(shape, payloads);
  Fitted fitted;
  fitted.seconds = seconds_of(
      [&] { fitted.parameters = must(LinearParameters::fit(shape, payloads, options), "fit"); });
  return fitted;
}

/// What blocks take as linear frames, and how fast.
struct Coded {
  double bits = 0, encode_mb_s = 0, decode_mb_s = 0;
};

Coded code(const LinearParameters& parameters, const KvBlocks& blocks,
           SimdLevel level = codec::best_simd_level()) {
  std::uint64_t bytes = 0;
  double encode_seconds = 0, decode_seconds = 0;
  ByteVector room(codec::frame_bytes_max(blocks.shape)), decoded(blocks.shape.raw_bytes());
  for (const codec::PlacedPayload& payload : placed(blocks)) {
    std::uint64_t size = 0;
    encode_seconds += seconds_of([&] {
      size = must(codec::encode_frame(blocks.shape, &parameters, payload.bytes, 0, room, level,
                                      payload.first_position),
                  "encode");
    });
    const ByteView frame = ByteView(room).first(size);
    decode_seconds += seconds_of([&] {
      must(codec::decode_frame(blocks.shape, &parameters, frame, decoded, level), "decode");
    });
    if (!std::ranges::equal(decoded, payload.bytes)) fail("linear: other bytes came back");
    bytes += size;
  }
  const auto raw = static_cast<double>(blocks.bytes());
  const double scalar_bits = 8.0 * bytes_per_scalar(blocks.shape.dtype);
  return {scalar_bits * static_cast<double>(bytes) / raw, raw / encode_seconds / 1e6,
          raw / decode_seconds / 1e6};
}

/// The mass that a bell curve with the tails of real errors gives to an interval around z.
double mass(double z, double half) {
  const auto bell = [&](double sigma) {
    const double root = sigma * std::sqrt(2.0);
    return 0.5 * (std::erf((z + half) / root) - std::erf((z - half) / root));
  };
  return 0.85 * bell(1) + 0.13 * bell(2) + 0.02 * bell(6);
}

/// The ideal code length of the same predictions: what no coder of them could do better.
double ideal_bits(const codec::LinearModel& model, const KvBlocks& blocks) {
  const codec::ScalarFormat format = codec::scalar_format(blocks.shape.dtype);
  const codec::FloatRange range(format);
  double bits = 0;
  std::uint64_t scalars = 0;
  for (const codec::PlacedPayload& payload : placed(blocks)) {
    codec::LinearPass pass(model, blocks.shape.tokens, payload.first_position);
    for (std::uint32_t l = 0; l < blocks.shape.layers; ++l) {
      const codec::LayerPlaces places(blocks.shape, l);
      pass.layer([&](const codec::LayerOrder::Channel& channel, const codec::Guesses& guesses,
                     std::span<std::uint32_t> patterns) {
        places.load(payload.bytes, channel, patterns);
        for (std::size_t t = 0; t < patterns.size(); ++t) {
          const double sigma = codec::scale_of(guesses.sigma_class[t]);
          const double ulp =
              std::ldexp(1.0, range.exponent_of(format.key(patterns[t])) - range.mantissa_bits);
          const double error = codec::value_of(format, patterns[t]) - double{guesses.mu[t]};
          bits -= std::log2(std::max(mass(error / sigma, ulp / sigma / 2), 1e-12));
        }
        scalars += patterns.size();
        return true;
      });
    }
  }
  return bits / static_cast<double>(scalars);
}

/// Multiply-adds a scalar: the map of the layers below, and on average half of the joint step.
double multiply_adds(const codec::LinearModel& model) {
  const auto channels = static_cast<double>(model.layers.front().mean.size());
  double sum = 0;
  for (const codec::LinearLayer& layer : model.layers) sum += layer.below * channels + channels / 2;
  return sum / static_cast<double>(model.layers.size());
}

void add_cost(const std::string& name, const Fitted& fitted, double bits, Figures& figures) {
  const double products = multiply_adds(fitted.parameters->model());
  figures.add(name + "_bits", bits, "bits/scalar");
  figures.add(name + "_multiply_adds", products, "a scalar");
  figures.add(name + "_prefill_share", products / prefill_multiply_adds);
}

void measure_main(const KvBlocks& fit_on, const KvBlocks& test, Figures& figures) {
  const Fitted fitted = fit(fit_on.shape, placed(fit_on));
  const Coded coded = code(*fitted.parameters, test);
  const double ideal = ideal_bits(fitted.parameters->model(), test);
  add_cost("linear", fitted, coded.bits, figures);
  figures.add("linear_ratio", 8.0 * bytes_per_scalar(test.shape.dtype) / coded.bits);
  figures.add("linear_ideal_bits", ideal, "bits/scalar");
  figures.add("linear_vs_ideal", coded.bits / ideal);
  figures.add("linear_fit_tokens",
              static_cast<double>(fit_on.payloads.size() * fit_on.shape.tokens));
  figures.add("linear_fit_s", fitted.seconds, "s");
  figures.add("linear_encode_mb_s", coded.encode_mb_s, "MB/s");
  figures.add("linear_decode_mb_s", coded.decode_mb_s, "MB/s");
  const Coded avx2 = code(*fitted.parameters, test, SimdLevel::avx2);
  figures.add("linear_decode_avx2_mb_s", avx2.decode_mb_s, "MB/s");
}

void measure_curve(const KvBlocks& fit_on, const KvBlocks& test, Figures& figures) {
  for (std::uint32_t below = 0; below < layers_below; ++below) {
    const Fitted fitted = fit(fit_on.shape, placed(fit_on), below);
    add_cost("linear_below" + std::to_string(below), fitted, code(*fitted.parameters, test).bits,
             figures);
  }
}

void measure_mixed(const KvBlocks& prose, const KvBlocks& prose_test, const CodeBlocks& sources,
                   Figures& figures) {
  const KvBlocks both = interleaved(prose, sources.fit);
  const Fitted fitted = fit(both.shape, placed(both));
  const double of_prose = code(*fitted.parameters, prose_test).bits;
  const double of_code = code(*fitted.parameters, sources.test).bits;
  figures.add("linear_bits_mixed", (of_prose + of_code) / 2, "bits/scalar");
  figures.add("linear_bits_mixed_prose", of_prose, "bits/scalar");
  figures.add("linear_bits_mixed_code", of_code, "bits/scalar");
  figures.add("static_bits_mixed", static_bits(both, interleaved(prose_test, sources.test)),
              "bits/scalar");
}

}  // namespace

void bench_linear(const KvBlocks& fit_on, const KvBlocks& test, const CodeBlocks* sources,
                  Figures& figures) {
  constexpr std::size_t few_blocks = 96;  // 24,576 tokens
  const KvBlocks few = first_blocks(fit_on, few_blocks);
  measure_main(few, test, figures);
  measure_curve(few, test, figures);
  {
    const KvBlocks fp8_test = convert(test, DType::fp8_e4m3);
    const KvBlocks fp8 = convert(few, DType::fp8_e4m3);
    const double bits = code(*fit(fp8.shape, placed(fp8)).parameters, fp8_test).bits;
    figures.add("fp8_linear_bits", bits, "bits/scalar");
    figures.add("fp8_linear_ratio", 8 / bits);
  }
  if (sources != nullptr) measure_mixed(few, test, *sources, figures);
  if (fit_on.payloads.size() > few_blocks) {
    const Fitted fitted = fit(fit_on.shape, placed(fit_on));
    figures.add("linear_bits_80k", code(*fitted.parameters, test).bits, "bits/scalar");
    figures.add("linear_fit_80k_tokens",
                static_cast<double>(fit_on.payloads.size() * fit_on.shape.tokens));
    figures.add("linear_fit_80k_s", fitted.seconds, "s");
  }
}

}  // namespace kvstrata::bench
