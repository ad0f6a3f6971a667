#include "codec/linear/linear_pass.h"

#include <array>

namespace kvstrata::codec {

namespace {

/// Channels whose errors are learned from in one go, so that they stay in the first-level cache
/// while all later channels of the panel pass by.
constexpr std::size_t learned_at_once = 8;

}  // namespace

LinearPass::LinearPass(const LinearModel& model, std::uint32_t tokens, std::uint32_t first_position,
                       SimdLevel level)
    : model_(model),
      kernels_(linear_kernels_of(level)),
      format_(scalar_format(model.shape.dtype)),
      order_(model.shape, model.rotary_dim),
      tokens_(tokens),
      row_(padded_tokens(tokens)),
      expected_(order_.size() * row_),
      errors_(panel_channels * row_),
      turned_(2 * row_),
      patterns_(2 * row_),
      mu_(row_),
      classes_(row_),
      scales_(row_),
      layer_steps_(row_, 0) {
  set_turns(first_position);
}

void LinearPass::set_turns(std::uint32_t first_position) {
  const std::uint32_t pairs = model_.rope.pairs();
  cosines_.resize(pairs * row_);
  sines_.resize(pairs * row_);
  for (std::uint32_t pair = 0; pair < pairs; ++pair) {
    for (std::uint32_t t = 0; t < tokens_; ++t) {
      const Turn turn = model_.rope.at(pair, first_position + t);
      cosines_[pair * row_ + t] = turn.cosine;
      sines_[pair * row_ + t] = turn.sine;
    }
  }
}

bool LinearPass::layer(const CodeChannel& code) {
  const LinearLayer& layer = model_.layers[layer_];
  scales_.begin(layer.scale_slope_256, layer.scale_offset_256, layer_steps_);
  predict(layer);
  inputs_.emplace_front((order_.size() + 3) / 4 * row_);
  for (std::size_t first = 0; first < order_.size(); first += panel_channels) {
    const std::size_t end = std::min(first + panel_channels, order_.size());
    if (!code_panel(layer, first, end, code)) return false;
    if (end < order_.size()) learn_from_panel(layer, first, end);
  }
  for (std::size_t t = 0; t < row_; ++t) layer_steps_[t] = scales_.layer_step(t);
  if (inputs_.size() > layers_below_max) inputs_.pop_back();
  ++layer_;
  return true;
}

/// Vector kernels read weights by fours.
const LinearKernels& LinearPass::kernels_for_products() const {
  return order_.size() % 4 == 0 ? kernels_ : scalar_linear_kernels;
}

void LinearPass::predict(const LinearLayer& layer) {
  std::array<const std::int32_t*, layers_below_max> below{};
  for (std::size_t i = 0; i < layer.below; ++i) below[i] = inputs_[i].data();
  const Products products{.weights = layer.map.data(),
                          .row_stride = layer.below * order_.size(),
                          .rows = order_.size(),
                          .inputs = std::span(below).first(layer.below),
                          .channels = order_.size(),
                          .tokens = row_};
  kernels_for_products().map(products, layer.map_scale.data(), layer.bias.data(), expected(0));
}

bool LinearPass::code_panel(const LinearLayer& layer, std::size_t first, std::size_t end,
                            const CodeChannel& code) {
  std::size_t group = first;  // what channels before it tell is told
  for (std::size_t c = first; c < end;) {
    if (c >= group + learned_at_once) {
      learn_in_panel(layer, first, {group, c}, {c, end});
      group = c;
    }
    const std::size_t count = order_.channels()[c].first_of_pair ? 2 : 1;
    learn_in_panel(layer, first, {group, c}, {c, c + count});
    if (count == 2 ? !code_pair(layer, c, first, code) : !code_single(layer, c, first, code)) {
      return false;
    }
    c += count;
  }
  return true;
}

Known LinearPass::known(const LinearLayer& layer, std::size_t channel, std::size_t panel) {
  Known known{};
  known.per_sigma = scale_of(-layer.sigma_class[channel]);
  known.units = scales_.units();
  const std::size_t count = order_.channels()[channel].first_of_pair ? 2 : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = channel + i;
    known.errors[i] = error(c - panel);
    known.mean[i] = layer.mean[c];
    known.input_scale[i] = layer.input_scale[c];
    known.inputs[i] = inputs_.front().data() + c / 4 * row_;
    known.bytes[i] = c % 4;
  }
  return known;
}

bool LinearPass::code_row(std::size_t channel, int sigma_class, const float* row,
                          std::uint32_t* patterns, const CodeChannel& code) {
  kernels_.guess(row, scales_.steps(), scale_of(sigma_class), sigma_class, row_, mu_.data(),
                 classes_.data());
  return code(order_.channels()[channel], {mu_.data(), classes_.data()},
              std::span(patterns, tokens_));
}

/// What channels of a panel tell of later ones in it.
void LinearPass::learn_in_panel(const LinearLayer& layer, std::size_t panel, Range from, Range to) {
  for (std::size_t c = to.first; c < to.end; ++c) {
    const float* const weights = layer.in_panel.data() + c * panel_channels;
    kernels_.learn(error(from.first - panel),
                   std::span(weights + (from.first - panel), from.end - from.first), row_,
                   expected(c));
  }
}

bool LinearPass::code_single(const LinearLayer& layer, std::size_t channel, std::size_t panel,
                             const CodeChannel& code) {
  if (!code_row(channel, layer.sigma_class[channel], expected(channel), patterns_.data(), code)) {
    return false;
  }
  kernels_.know(format_, patterns_.data(), expected(channel), row_, known(layer, channel, panel));
  scales_.channels_added(1);
  return true;
}

/// A pair tells nothing of itself: both are coded turned, with what was expected before.
bool LinearPass::code_pair(const LinearLayer& layer, std::size_t channel, std::size_t panel,
                           const CodeChannel& code) {
  const auto pair = static_cast<std::size_t>(order_.channels()[channel].pair);
  const Turns turns{cosines_.data() + pair * row_, sines_.data() + pair * row_};
  float* const first = turned_.data();
  float* const second = first + row_;
  kernels_.turn(expected(channel), expected(channel + 1), turns, row_, first, second);
  std::uint32_t* const patterns[2] = {patterns_.data(), patterns_.data() + row_};
  const int sigma_class = layer.sigma_class[channel];
  if (!code_row(channel, sigma_class, first, patterns[0], code) ||
      !code_row(channel + 1, sigma_class, second, patterns[1], code)) {
    return false;
  }
  const std::uint32_t* const both[2] = {patterns[0], patterns[1]};
  const float* const turned[2] = {first, second};
  kernels_.know_pair(format_, both, turned, turns, row_, known(layer, channel, panel));
  scales_.channels_added(2);
  return true;
}

void LinearPass::learn_from_panel(const LinearLayer& layer, std::size_t first, std::size_t end) {
  // Of the end of the panel: what is said of a token before its first errors may be far off.
  std::vector<float> scales(row_), per_scale(row_);
  for (std::size_t t = 0; t < row_; ++t) {
    scales[t] = scale_of(scales_.steps()[t]);
    per_scale[t] = scale_of(-scales_.steps()[t]) * error_int8_units;
  }
  Inputs packed(panel_channels / 4 * row_);
  kernels_.pack_errors(error(0), end - first, per_scale.data(), row_, packed.data());
  const std::int32_t* const input = packed.data();
  const Products products{.weights = layer.joint.data() + end * order_.size() + first,
                          .row_stride = order_.size(),
                          .rows = order_.size() - end,
                          .inputs = std::span(&input, 1),
                          .channels = end - first,
                          .tokens = row_};
  kernels_for_products().join(products, layer.joint_scale.data() + end, scales.data(),
                              expected(end));
}

}  // namespace kvstrata::codec
