// PlainForward: the same model in binary64, with nothing rounded and no order kept: what the exact
// pass must be near.
#pragma once

#include <cmath>
#include <vector>

#include "predictor/bf16.h"
#include "predictor/model.h"

namespace kvstrata::test {

class PlainForward {
 public:
  using Rows = std::vector<std::vector<double>>;  // [token][channel]

  PlainForward(const predictor::Model& model, const std::vector<std::uint32_t>& tokens)
      : model_(model), config_(model.config) {
    for (const std::uint32_t token : tokens) {
      std::vector<double> row;
      for (std::uint32_t j = 0; j < config_.hidden; ++j) {
        row.push_back(
            predictor::float_of_bf16(model.embedding[std::size_t{token} * config_.hidden + j]));
      }
      x_.push_back(row);
    }
  }

  /// K, not turned, and V of a layer.
  std::pair<Rows, Rows> expect(std::size_t layer) const {
    const predictor::LayerWeights& weights = model_.layers[layer];
    const Rows h = normed(x_, weights.input_norm);
    return {normed_heads(multiply(h, weights.k, weights.k_bias), weights.k_norm),
            multiply(h, weights.v, weights.v_bias)};
  }

  void know(std::size_t layer, const Rows& k, const Rows& v) {
    const predictor::LayerWeights& weights = model_.layers[layer];
    const Rows h = normed(x_, weights.input_norm);
    Rows q = normed_heads(multiply(h, weights.q, weights.q_bias), weights.q_norm);
    Rows out(q.size(), std::vector<double>(q[0].size()));
    for (std::size_t t = 0; t < q.size(); ++t) {
      turn(q[t], t);
      for (std::uint32_t head = 0; head < config_.heads; ++head) attend(head, t, q, k, v, out);
    }
    add(multiply(out, weights.o, {}));
    const Rows g = normed(x_, weights.post_norm);
    Rows gate = multiply(g, weights.gate, {});
    const Rows up = multiply(g, weights.up, {});
    for (std::size_t t = 0; t < gate.size(); ++t) {
      for (std::size_t j = 0; j < gate[t].size(); ++j) {
        gate[t][j] = gate[t][j] / (1 + std::exp(-gate[t][j])) * up[t][j];
      }
    }
    add(multiply(gate, weights.down, {}));
  }

  void turn(std::vector<double>& heads, std::size_t position) const {
    const std::uint32_t half = config_.rotary_dim / 2;
    const auto cosines = model_.cosines_at(static_cast<std::uint32_t>(position));
    const auto sines = model_.sines_at(static_cast<std::uint32_t>(position));
    for (std::size_t first = 0; first < heads.size(); first += config_.head_dim) {
      for (std::uint32_t j = 0; j < half; ++j) {
        const double a = heads[first + j], b = heads[first + j + half];
        heads[first + j] = a * cosines[j] - b * sines[j];
        heads[first + j + half] = b * cosines[j] + a * sines[j];
      }
    }
  }

 private:
  std::vector<double> norm(std::span<const double> v, std::span<const float> weight) const {
    double squares = 0;
    for (const double value : v) squares += value * value;
    const double size = std::sqrt(squares / static_cast<double>(v.size()) + config_.eps);
    std::vector<double> out;
    for (std::size_t j = 0; j < v.size(); ++j) out.push_back(v[j] / size * weight[j]);
    return out;
  }
  Rows normed(const Rows& rows, std::span<const float> weight) const {
    Rows out;
    for (const auto& row : rows) out.push_back(norm(row, weight));
    return out;
  }
  Rows normed_heads(Rows rows, std::span<const float> weight) const {
    if (weight.empty()) return rows;
    for (auto& row : rows) {
      for (std::size_t first = 0; first < row.size(); first += config_.head_dim) {
        const auto head = norm(std::span(row).subspan(first, config_.head_dim), weight);
        std::ranges::copy(head, row.begin() + static_cast<std::ptrdiff_t>(first));
      }
    }
    return rows;
  }

  static Rows multiply(const Rows& rows, const predictor::Weights& weights,
                       std::span<const float> bias) {
    return std::visit(
        [&](const auto& view) {
          Rows out(rows.size(), std::vector<double>(view.rows));
          for (std::size_t t = 0; t < rows.size(); ++t) {
            for (std::size_t r = 0; r < view.rows; ++r) {
              double sum = bias.empty() ? 0 : bias[r];
              for (std::size_t i = 0; i < view.columns; ++i) {
                sum +=
                    rows[t][i] * view.at(r, i) * static_cast<double>(view.scale(r, i / view.group));
              }
              out[t][r] = sum;
            }
          }
          return out;
        },
        weights);
  }

  void attend(std::uint32_t head, std::size_t t, const Rows& q, const Rows& k, const Rows& v,
              Rows& out) const {
    const std::size_t dim = config_.head_dim;
    const std::size_t first = head * dim, kv = head / (config_.heads / config_.kv_heads) * dim;
    std::vector<double> weights(t + 1);
    double total = 0;
    for (std::size_t s = 0; s <= t; ++s) {
      if (config_.window != 0 && s + config_.window <= t) continue;
      double score = 0;
      for (std::size_t c = 0; c < dim; ++c) score += q[t][first + c] * k[s][kv + c];
      weights[s] = std::exp(score * static_cast<double>(config_.softmax_scale));
      total += weights[s];
    }
    for (std::size_t s = 0; s <= t; ++s) {
      for (std::size_t c = 0; c < dim; ++c) out[t][first + c] += weights[s] / total * v[s][kv + c];
    }
  }

  void add(const Rows& rows) {
    for (std::size_t t = 0; t < x_.size(); ++t) {
      for (std::size_t j = 0; j < x_[t].size(); ++j) x_[t][j] += rows[t][j];
    }
  }

  const predictor::Model& model_;
  const predictor::ModelConfig& config_;
  Rows x_;
};

}  // namespace kvstrata::test
