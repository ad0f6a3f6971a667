#include "codec/linear/rope_search.h"

#include <algorithm>
#include <array>
#include <vector>

#include "codec/linear/number.h"

namespace kvstrata::codec {

namespace {

/// rope_theta of published models: GPT-NeoX and Llama 2, SmolLM2, Gemma, Llama 3, Mixtral, Qwen,
/// Mistral NeMo and those for long contexts.
constexpr std::array thetas{1e4, 1e5, 1.3e5, 1.5e5, 2.5e5, 5e5, 1e6, 2e6, 5e6, 8e6, 1e7, 5e7, 1e8};
constexpr std::size_t payloads_max = 8;
constexpr std::uint32_t layers_max = 4, tokens_max = 256;
/// What un-rotating has to explain beyond K as it is, as a share of all.
constexpr double least_gain = 0.02;

/// K of some layers of some tokens.
struct Sample {
  std::uint32_t channels = 0;
  std::vector<std::uint32_t> positions;    ///< of a row
  std::vector<std::vector<float>> layers;  ///< [layer][row · channels + channel]
};

Sample take_sample(const BlockShape& shape, std::span<const PlacedPayload> payloads) {
  const ScalarFormat format = scalar_format(shape.dtype);
  const std::uint32_t tokens = std::min(shape.tokens, tokens_max);
  const std::uint32_t layers = std::min(shape.layers, layers_max);
  const std::size_t stride = std::max<std::size_t>(1, payloads.size() / payloads_max);
  Sample sample;
  sample.channels = shape.channels(Side::k);
  for (std::size_t i = 0; i < payloads.size(); i += stride) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      const std::uint32_t position = payloads[i].first_position + t;
      if (position != 0) sample.positions.push_back(position);  // the first token is like no other
    }
  }
  for (std::uint32_t l = 0; l < layers; ++l) {
    const Placement place = placement_of(shape, l * shape.layers / layers * shape.sides());
    std::vector<float>& rows = sample.layers.emplace_back();
    for (std::size_t i = 0; i < payloads.size(); i += stride) {
      for (std::uint32_t t = payloads[i].first_position == 0 ? 1 : 0; t < tokens; ++t) {
        for (std::uint32_t c = 0; c < sample.channels; ++c) {
          const float value = value_of(
              format, load_scalar(payloads[i].bytes.data() + place.at(c, t), format.bytes));
          rows.push_back(tame(value));
        }
      }
    }
  }
  return sample;
}

/// The share of all squares that the channels' means explain, K taken back to position 0.
double explained(const Sample& sample, const BlockShape& shape, const RopeSpec& spec) {
  const Rope rope(spec);
  const std::uint32_t half = spec.rotary_dim / 2;
  double of_means = 0, of_all = 0;
  std::vector<double> sums(sample.channels);
  for (const std::vector<float>& rows : sample.layers) {
    std::ranges::fill(sums, 0);
    for (std::size_t row = 0; row < sample.positions.size(); ++row) {
      const float* const k = rows.data() + row * sample.channels;
      for (std::uint32_t c = 0; c < sample.channels; ++c) {
        of_all += double{k[c]} * k[c];
        const std::uint32_t dim = c % shape.head_dim_k;
        if (dim >= spec.rotary_dim) sums[c] += k[c];
        if (dim >= half) continue;
        const Turn turn = rope.at(dim, sample.positions[row]);
        sums[c] += double{k[c]} * turn.cosine + double{k[c + half]} * turn.sine;
        sums[c + half] += double{k[c + half]} * turn.cosine - double{k[c]} * turn.sine;
      }
    }
    for (const double sum : sums) of_means += sum * sum;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(sample.positions.size(), 1));
  return of_all > 0 ? of_means / count / of_all : 0;
}

}  // namespace

RopeSpec find_rope(const BlockShape& shape, std::span<const PlacedPayload> payloads) {
  const Sample sample = take_sample(shape, payloads);
  RopeSpec best{.rotary_dim = 0};
  double most = explained(sample, shape, best) + least_gain;
  for (const std::uint32_t part : {1U, 2U, 4U}) {
    const std::uint32_t rotary_dim = shape.head_dim_k / part;
    if (rotary_dim == 0 || rotary_dim % 2 != 0) continue;
    for (const double theta : thetas) {
      const RopeSpec spec{.rotary_dim = rotary_dim, .theta = theta};
      const double share = explained(sample, shape, spec);
      if (share > most) {
        most = share;
        best = spec;
      }
    }
  }
  return best;
}

}  // namespace kvstrata::codec
