// KV whose layers tell of each other, for what the linear codec does: blocks of a made-up model,
// and fits on them. Reproducible from a seed.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "codec/linear/linear_model.h"
#include "tests/base/seed.h"
#include "tests/codec/synthetic_kv.h"

namespace kvstrata::test {

inline constexpr codec::RopeSpec layered_rope{.rotary_dim = 8, .theta = 1000};

/// 24 channels a head; 3 heads make two panels.
inline codec::BlockShape layered_shape(DType dtype, const char* axes = "LSPHTC",
                                       std::uint32_t heads = 2) {
  return block_shape(dtype, 4, heads, 12, 32, axes);
}

/// A normal number of mean 0 and deviation 1, nearly.
inline float bell(Random& random) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<float>(random.below(1U << 16)) / (1U << 16);
  return sum;
}

/// Blocks of a model of 6 hidden numbers a token, of which all layers show mixtures, and noise.
class LayeredKv {
 public:
  explicit LayeredKv(Random& random) {
    for (float& weight : weights_) weight = bell(random);
  }

  ByteVector block(const codec::BlockShape& shape, Random& random,
                   std::uint32_t first_position) const {
    ByteVector payload(shape.raw_bytes());
    const codec::LayerOrder order(shape, layered_rope.rotary_dim);
    const codec::Rope turns(layered_rope);
    std::vector<std::array<float, 6>> hidden(shape.tokens);
    for (auto& numbers : hidden) {
      for (float& number : numbers) number = bell(random);
    }
    for (std::uint32_t l = 0; l < shape.layers; ++l) {
      const codec::LayerPlaces places(shape, l);
      for (std::uint32_t t = 0; t < shape.tokens; ++t) {
        std::vector<float> values;
        for (std::size_t c = 0; c < order.size(); ++c) {
          float value = 0.03F * bell(random);
          for (std::size_t h = 0; h < 6; ++h) {
            value += hidden[t][h] * weights_[(l * 128 + c) * 6 + h];
          }
          values.push_back(value);
        }
        for (std::size_t c = 0; c < order.size(); ++c) {
          const codec::LayerOrder::Channel& channel = order.channels()[c];
          if (channel.first_of_pair) {
            const codec::Turn turn =
                turns.at(static_cast<std::uint32_t>(channel.pair), first_position + t);
            const float a = values[c], b = values[c + 1];
            values[c] = a * turn.cosine - b * turn.sine;
            values[c + 1] = b * turn.cosine + a * turn.sine;
          }
          const std::uint32_t bits = pattern_of(shape.dtype, values[c]);
          std::memcpy(payload.data() + places.at(channel, t), &bits, bytes_per_scalar(shape.dtype));
        }
      }
    }
    return payload;
  }

 private:
  std::array<float, 4 * 128 * 6> weights_{};
};

/// 20 blocks of such a model, at positions they are fitted with.
struct LayeredBlocks {
  LayeredBlocks(Random& random, const codec::BlockShape& of) : shape(of), source(random) {
    for (std::uint32_t i = 0; i < 20; ++i) {
      blocks.push_back(source.block(shape, random, i % 3 * shape.tokens));
    }
    for (std::uint32_t i = 0; i < 20; ++i) payloads.push_back({blocks[i], i % 3 * shape.tokens});
  }
  codec::LinearModel fit() const {
    return codec::fit_linear(shape, payloads, {.rope = layered_rope, .layers_below = 2}).value();
  }

  codec::BlockShape shape;
  LayeredKv source;
  std::vector<ByteVector> blocks;
  std::vector<codec::PlacedPayload> payloads;
};

}  // namespace kvstrata::test
