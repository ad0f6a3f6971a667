#include "predictor/forward.h"

#include <algorithm>
#include <cmath>

#include "codec/linear/plain_floats.h"
#include "kvstrata/bytes.h"
#include "kvstrata/check.h"
#include "kvstrata/checksum.h"
#include "predictor/bf16.h"

namespace kvstrata::predictor {

namespace {

std::uint32_t group_of(const Weights& weights) {
  return std::visit([](const auto& view) { return view.group; }, weights);
}

}  // namespace

KvSequence make_sequence(const Model& model) {
  return {model.layers.size(), SequenceLayer(model.config)};
}

Forward::Forward(const Model& model, KvSequence& sequence, std::span<const std::uint32_t> tokens,
                 codec::SimdLevel level)
    : model_(model),
      config_(model.config),
      kernels_(product_kernels_of(level)),
      sequence_(sequence),
      tokens_(tokens.size()),
      first_position_(sequence.front().tokens()),
      x_(tokens.size() * model.config.hidden) {
  KV_CHECK(
      tokens_ > 0 && tokens_ % key_block == 0 && first_position_ + tokens_ <= config_.positions,
      "a block of other tokens than the arithmetic is for");
  KV_CHECK(std::ranges::all_of(
               sequence, [&](const auto& layer) { return layer.tokens() == first_position_; }),
           "a sequence of which a block was left unfinished");
  for (std::size_t t = 0; t < tokens_; ++t) {
    KV_CHECK(tokens[t] < config_.vocab, "a token beyond the vocabulary");
    for (std::size_t j = 0; j < config_.hidden; ++j) {
      x_[t * config_.hidden + j] =
          float_of_bf16(model.embedding[std::size_t{tokens[t]} * config_.hidden + j]);
    }
  }
}

std::span<float> Forward::hidden(std::size_t token) {
  return std::span(x_).subspan(token * config_.hidden, config_.hidden);
}

// Step 2, for what is multiplied next.
CodeRows Forward::normed(std::span<const float> weight) {
  std::vector<float> rows(x_.size());
  for (std::size_t t = 0; t < tokens_; ++t) {
    const std::span<float> row = std::span(rows).subspan(t * config_.hidden, config_.hidden);
    finite_ &= norm(hidden(t), config_.eps, weight, row);
  }
  return quantised(rows, group_of(model_.layers[layer_].k), config_.activation_top);
}

CodeRows Forward::quantised(std::span<const float> rows, std::uint32_t group, float top) {
  const std::size_t columns = rows.size() / tokens_;
  CodeRows codes(static_cast<std::uint32_t>(tokens_), static_cast<std::uint32_t>(columns), group,
                 top);
  for (std::size_t t = 0; t < tokens_; ++t) {
    finite_ &= codes.set(t, rows.subspan(t * columns, columns));
  }
  return codes;
}

std::vector<float> Forward::multiply(const CodeRows& input, const Weights& weights,
                                     std::span<const float> bias) const {
  std::vector<float> out =
      std::visit([&](const auto& view) { return products(kernels_, input.view(), view); }, weights);
  for (std::size_t i = 0; !bias.empty() && i < out.size(); ++i) out[i] += bias[i % bias.size()];
  return out;
}

std::vector<float> Forward::multiply_quantised(const std::vector<float>& rows,
                                               const Weights& weights) {
  return multiply(quantised(rows, group_of(weights), config_.activation_top), weights, {});
}

void Forward::norm_heads(std::vector<float>& rows, std::span<const float> weight) {
  if (weight.empty()) return;
  std::vector<float> head(config_.head_dim);
  for (std::size_t first = 0; first < rows.size(); first += head.size()) {
    const std::span<float> place = std::span(rows).subspan(first, head.size());
    finite_ &= norm(place, config_.eps, weight, head);
    std::ranges::copy(head, place.begin());
  }
}

std::uint64_t Forward::digest_of(const CodeRows& rows) const {
  const CodeView view = rows.view();
  ByteVector bytes;
  for (std::size_t t = 0; t < tokens_; ++t) {
    const auto codes = std::as_bytes(std::span(view.row(t), view.groups() * view.group));
    const auto scales = std::as_bytes(std::span(view.row_scales(t), view.groups()));
    bytes.insert(bytes.end(), codes.begin(), codes.end());
    bytes.insert(bytes.end(), scales.begin(), scales.end());
  }
  return xxh3(bytes);
}

Expected Forward::expect() {
  const codec::PlainFloats plain;
  const LayerWeights& weights = model_.layers.at(layer_);
  input_ = normed(weights.input_norm);
  Expected expected{multiply(*input_, weights.k, weights.k_bias),
                    multiply(*input_, weights.v, weights.v_bias), digest_of(*input_)};
  norm_heads(expected.k, weights.k_norm);
  finite_ &= all_finite(expected.k) && all_finite(expected.v);
  return expected;
}

void Forward::know(std::span<const float> k, std::span<const float> v,
                   const std::optional<Correction>& correction) {
  const codec::PlainFloats plain;
  KV_CHECK(k.size() == tokens_ * config_.kv_channels(), "K and V of another block");
  finite_ &= sequence_[layer_].append(k, v);
  if (layer_ + 1 < model_.layers.size()) {
    if (correction) {
      correct(*correction);
      input_ = normed(model_.layers[layer_].input_norm);
    }
    attend(*input_);
    run_mlp();
  }
  ++layer_;
}

// Step 6.
void Forward::correct(const Correction& correction) {
  const TileView<std::int16_t>& matrix = correction.matrix;
  KV_CHECK(matrix.rows == config_.hidden &&
               correction.errors.size() == tokens_ * std::size_t{matrix.columns},
           "a correction of another model or block");
  const CodeRows errors = quantised(correction.errors, matrix.group, top_of_13_bits);
  const std::vector<float> steps = products(kernels_, errors.view(), matrix);
  for (std::size_t t = 0; t < tokens_; ++t) {
    const std::span<float> x = hidden(t);
    const float size = std::sqrt(sum_of_squares(x) / static_cast<float>(config_.hidden));
    for (std::size_t j = 0; j < x.size(); ++j) {
      x[j] = std::fma(steps[t * config_.hidden + j], size, x[j]);
    }
  }
}

void Forward::add_to_x(const std::vector<float>& y) {
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += y[i];
}

// Steps 7 and 8.
void Forward::attend(const CodeRows& input) {
  const LayerWeights& weights = model_.layers[layer_];
  std::vector<float> q = multiply(input, weights.q, weights.q_bias);
  norm_heads(q, weights.q_norm);
  std::vector<float> out(q.size());
  for (std::size_t t = 0; t < tokens_; ++t) {
    const auto position = static_cast<std::uint32_t>(first_position_ + t);
    for (std::uint32_t head = 0; head < config_.heads; ++head) {
      const std::size_t first = (t * config_.heads + head) * config_.head_dim;
      const std::span<float> of_head = std::span(q).subspan(first, config_.head_dim);
      turn(of_head, model_.cosines_at(position), model_.sines_at(position));
      finite_ &= sequence_[layer_].attend(head, position, of_head,
                                          std::span(out).subspan(first, config_.head_dim));
    }
  }
  add_to_x(multiply_quantised(out, weights.o));
}

// Step 9.
void Forward::run_mlp() {
  const LayerWeights& weights = model_.layers[layer_];
  const CodeRows h = normed(weights.post_norm);
  std::vector<float> gate = multiply(h, weights.gate, {});
  const std::vector<float> up = multiply(h, weights.up, {});
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = silu(gate[i]) * up[i];
  add_to_x(multiply_quantised(gate, weights.down));
}

}  // namespace kvstrata::predictor
