// A Model is the quantised copy of a language model that the predictor runs: views of a package's
// sections (doc/package-format.md), or of a test's own arrays. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "predictor/codes.h"

namespace kvstrata::predictor {

struct ModelConfig {
  std::uint32_t layers = 0, hidden = 0, intermediate = 0, vocab = 0;
  std::uint32_t heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  std::uint32_t positions = 0;  ///< that the RoPE tables have
  std::uint32_t window = 0;     ///< of sliding-window attention; 0: none
  float eps = 1e-5F, softmax_scale = 1;
  float rope_inverse = 1;  ///< what turning K back is multiplied with
  float activation_top = top_of_13_bits;

  std::uint32_t kv_channels() const { return kv_heads * head_dim; }
};

/// Rows are outputs. 8-bit codes are int8, 13-bit ones int16.
using Weights = std::variant<TileView<std::int8_t>, TileView<std::int16_t>>;

struct LayerWeights {
  std::span<const float> input_norm, post_norm;
  std::span<const float> q_bias, k_bias, v_bias;  ///< empty: none
  std::span<const float> q_norm, k_norm;          ///< of each head; empty: none
  Weights q, k, v, o, gate, up, down;             ///< of the last layer k and v alone
};

struct Model {
  ModelConfig config;
  std::span<const std::uint16_t> embedding;  ///< bf16[vocab][hidden]
  std::span<const float> cosines, sines;     ///< [positions][rotary_dim / 2]
  std::vector<LayerWeights> layers;

  std::span<const float> cosines_at(std::uint32_t position) const {
    return cosines.subspan(std::size_t{position} * config.rotary_dim / 2, config.rotary_dim / 2);
  }
  std::span<const float> sines_at(std::uint32_t position) const {
    return sines.subspan(std::size_t{position} * config.rotary_dim / 2, config.rotary_dim / 2);
  }
};

}  // namespace kvstrata::predictor
