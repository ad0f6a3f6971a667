// A TinyModel is a small language model of made-up weights: the same on every machine, in the
// forms that families of models have.
#pragma once

#include <bit>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "predictor/forward.h"

namespace kvstrata::test {

/// What distinguishes families, and precisions.
struct TinyForm {
  std::string name;
  std::uint32_t heads = 4, kv_heads = 2, head_dim = 16, group = 64, window = 0;
  bool bias = false, qk_norm = false;
  int weight_bits = 13, activation_bits = 13;
};

class TinyModel {
 public:
  explicit TinyModel(const TinyForm& form) : form_(form) {
    predictor::ModelConfig& config = model_.config;
    config.layers = 3;
    config.hidden = 72;  // no multiple of a group
    config.intermediate = 136;
    config.vocab = 100;
    config.heads = form.heads;
    config.kv_heads = form.kv_heads;
    config.head_dim = config.rotary_dim = form.head_dim;
    config.positions = 256;
    config.window = form.window;
    config.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(form.head_dim)));
    config.activation_top =
        form.activation_bits == 8 ? predictor::top_of_8_bits : predictor::top_of_13_bits;
    embed();
    make_rope();
    for (std::uint32_t i = 0; i < config.layers; ++i) add_layer(i + 1 == config.layers);
  }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  const predictor::Model& model() const { return model_; }
  const TinyForm& form() const { return form_; }
  std::vector<std::uint32_t> tokens(std::size_t count) {
    std::vector<std::uint32_t> all(count);
    for (std::uint32_t& token : all) token = next() % model_.config.vocab;
    return all;
  }
  /// A number within ±size, a multiple of size · 2^-23.
  float number(float size) {
    return static_cast<float>(static_cast<std::int32_t>(next()) >> 8) * 0x1p-23F * size;
  }

  /// One more matrix of 13 bits, of numbers within ±size.
  predictor::TileView<std::int16_t> wide_matrix(std::uint32_t rows, std::uint32_t columns,
                                                float size) {
    return tiles(rows, columns, size, predictor::top_of_13_bits, wide_);
  }

 private:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  std::span<const float> keep(std::vector<float> values) {
    return floats_.emplace_back(std::move(values));
  }
  std::span<const float> vector(std::size_t size, float middle, float spread) {
    std::vector<float> values(size);
    for (float& value : values) value = middle + number(spread);
    return keep(std::move(values));
  }

  void embed() {
    const predictor::ModelConfig& config = model_.config;
    embedding_.resize(std::size_t{config.vocab} * config.hidden);
    for (std::uint16_t& value : embedding_) {
      value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number(1)) >> 16);
    }
    model_.embedding = embedding_;
  }

  void make_rope() {
    const predictor::ModelConfig& config = model_.config;
    std::vector<float> cosines, sines;
    for (std::uint32_t position = 0; position < config.positions; ++position) {
      for (std::uint32_t j = 0; j < config.rotary_dim / 2; ++j) {
        // Turns in 16ths, so that no library's cosine decides a golden value.
        constexpr float eighth[] = {1, 0.923828125F, 0.70703125F, 0.3828125F, 0};
        const std::uint32_t step = position * (j + 1) % 16;
        const auto cosine = [&](std::uint32_t at) {
          at %= 16;
          const std::uint32_t folded = at > 8 ? 16 - at : at;
          return folded <= 4 ? eighth[folded] : -eighth[8 - folded];
        };
        cosines.push_back(cosine(step));
        sines.push_back(cosine(step + 12));
      }
    }
    model_.cosines = keep(std::move(cosines));
    model_.sines = keep(std::move(sines));
  }

  template <typename Code>
  predictor::TileView<Code> tiles(std::uint32_t rows, std::uint32_t columns, float size, float top,
                                  std::deque<std::vector<Code>>& kept) {
    predictor::CodeTile<Code> tile(columns, form_.group, top);
    std::vector<Code>& codes = kept.emplace_back();
    std::vector<float>& scales = floats_.emplace_back();
    std::vector<float> row(columns);
    for (std::uint32_t r = 0; r < rows; ++r) {
      if (r % predictor::tile_rows == 0) tile.clear();
      for (float& value : row) value = number(size);
      tile.set(r % predictor::tile_rows, row);
      if (r + 1 < rows && (r + 1) % predictor::tile_rows != 0) continue;
      codes.insert(codes.end(), tile.codes().begin(), tile.codes().end());
      scales.insert(scales.end(), tile.scales().begin(), tile.scales().end());
    }
    return {codes.data(), scales.data(), rows, columns, form_.group};
  }

  predictor::Weights matrix(std::uint32_t rows, std::uint32_t columns) {
    const float size = 1.7F / std::sqrt(static_cast<float>(columns));
    if (form_.weight_bits == 13) return wide_matrix(rows, columns, size);
    return tiles(rows, columns, size, predictor::top_of_8_bits, narrow_);
  }

  void add_layer(bool last) {
    const predictor::ModelConfig& config = model_.config;
    const std::uint32_t q = config.heads * config.head_dim, kv = config.kv_channels();
    predictor::LayerWeights layer;
    layer.input_norm = vector(config.hidden, 1, 0.5F);
    layer.post_norm = vector(config.hidden, 1, 0.5F);
    if (form_.bias) {
      layer.q_bias = vector(q, 0, 1);
      layer.k_bias = vector(kv, 0, 1);
      layer.v_bias = vector(kv, 0, 1);
    }
    if (form_.qk_norm) {
      layer.q_norm = vector(config.head_dim, 1, 0.5F);
      layer.k_norm = vector(config.head_dim, 1, 0.5F);
    }
    layer.k = matrix(kv, config.hidden);
    layer.v = matrix(kv, config.hidden);
    if (!last) {
      layer.q = matrix(q, config.hidden);
      layer.o = matrix(config.hidden, q);
      layer.gate = matrix(config.intermediate, config.hidden);
      layer.up = matrix(config.intermediate, config.hidden);
      layer.down = matrix(config.hidden, config.intermediate);
    }
    model_.layers.push_back(layer);
  }

  TinyForm form_;
  std::uint64_t state_ = 12345;
  predictor::Model model_;
  std::vector<std::uint16_t> embedding_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int8_t>> narrow_;
  std::deque<std::vector<std::int16_t>> wide_;
};

}  // namespace kvstrata::test
