#include "codec/linear/linear_pass.h"

#include <cmath>

namespace kvstrata::codec {

namespace {

constexpr float error_max = 1024;

/// An error that can be learned from, whatever the scalar was.
float tame(float error) {
  return std::isfinite(error) ? std::clamp(error, -error_max, error_max) : 0.0F;
}

std::int8_t to_int8(float value) {
  if (!(value > -127.0F)) return value == value ? std::int8_t{-127} : std::int8_t{0};
  return value < 127.0F ? static_cast<std::int8_t>(std::nearbyint(value)) : std::int8_t{127};
}

std::int32_t dot(const std::int8_t* a, const std::int8_t* b, std::size_t count) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

float value_of(const ScalarFormat& format, std::uint32_t pattern) {
  const FloatRange range(format);
  const std::uint32_t key = format.key(pattern);
  const std::uint32_t significand =
      format.mantissa(pattern) | (key == 0 ? 0U : 1U << format.mantissa_bits);
  const float size =
      std::ldexp(static_cast<float>(significand), range.exponent_of(key) - range.mantissa_bits);
  return format.sign(pattern) != 0 ? -size : size;
}

LinearPass::LinearPass(const LinearModel& model, std::uint32_t tokens, std::uint32_t first_position)
    : model_(model),
      order_(model.shape, model.rotary_dim),
      tokens_(tokens),
      first_position_(first_position),
      expected_(order_.size(), std::vector<float>(tokens)),
      errors_(order_.size(), std::vector<float>(tokens)),
      layer_steps_(tokens, 0),
      guesses_(tokens),
      patterns_(tokens),
      values_(tokens) {}

void LinearPass::layer(const CodeChannel& code) {
  const LinearLayer& layer = model_.layers[layer_];
  scales_.clear();
  for (std::size_t t = 0; t < tokens_; ++t) {
    const int first = (layer.scale_slope_256 * layer_steps_[t] + layer.scale_offset_256 + 128) >> 8;
    scales_.emplace_back(first);
  }
  predict(layer);
  inputs_.emplace_back(tokens_ * order_.size());
  for (std::size_t first = 0; first < order_.size(); first += panel_channels) {
    code_panel(layer, first, code);
  }
  for (std::size_t t = 0; t < tokens_; ++t) layer_steps_[t] = scales_[t].layer_step();
  if (inputs_.size() > layers_below_max) inputs_[inputs_.size() - 1 - layers_below_max] = {};
  ++layer_;
}

void LinearPass::predict(const LinearLayer& layer) {
  const std::size_t channels = order_.size();
  for (std::size_t c = 0; c < channels; ++c) {
    const std::int8_t* const row = layer.map.data() + c * layer.below * channels;
    for (std::size_t t = 0; t < tokens_; ++t) {
      std::int32_t sum = 0;
      for (std::size_t b = 0; b < layer.below; ++b) {
        sum += dot(row + b * channels, inputs_[layer_ - 1 - b].data() + t * channels, channels);
      }
      expected_[c][t] = std::fma(static_cast<float>(sum), layer.map_scale[c], layer.bias[c]);
    }
  }
}

void LinearPass::code_panel(const LinearLayer& layer, std::size_t first, const CodeChannel& code) {
  const std::size_t end = std::min(first + panel_channels, order_.size());
  for (std::size_t c = first; c < end;) {
    const bool pair = order_.channels()[c].pair >= 0;
    const std::size_t next = pair ? code_pair(layer, c, code) : code_single(layer, c, code);
    for (; c < next; ++c) learn_in_panel(layer, c, first);
  }
  learn_from_panel(layer, first, end);
}

void LinearPass::code_guesses(const LayerOrder::Channel& channel, int sigma_class,
                              const std::vector<float>& expected, const CodeChannel& code) {
  const float sigma = scale_of(sigma_class);
  for (std::size_t t = 0; t < tokens_; ++t) {
    guesses_[t] = {expected[t] * sigma, sigma_class + scales_[t].step()};
  }
  code(channel, guesses_, patterns_);
}

std::size_t LinearPass::code_single(const LinearLayer& layer, std::size_t channel,
                                    const CodeChannel& code) {
  const ScalarFormat format = scalar_format(model_.shape.dtype);
  const int sigma_class = layer.sigma_class[channel];
  const float per_sigma = scale_of(-sigma_class);
  code_guesses(order_.channels()[channel], sigma_class, expected_[channel], code);
  for (std::size_t t = 0; t < tokens_; ++t) {
    const float value = value_of(format, patterns_[t]);
    errors_[channel][t] = tame(value * per_sigma - expected_[channel][t]);
    scales_[t].add(errors_[channel][t]);
    keep_input(layer, channel, t, value);
  }
  return channel + 1;
}

std::size_t LinearPass::code_pair(const LinearLayer& layer, std::size_t channel,
                                  const CodeChannel& code) {
  const ScalarFormat format = scalar_format(model_.shape.dtype);
  const auto& channels = order_.channels();
  const int sigma_class = layer.sigma_class[channel];
  const float per_sigma = scale_of(-sigma_class);
  std::vector<Turn> turns;
  std::vector<float> first(tokens_), second(tokens_);  // as RoPE turns them
  for (std::size_t t = 0; t < tokens_; ++t) {
    turns.push_back(model_.rope.at(static_cast<std::uint32_t>(channels[channel].pair),
                                   first_position_ + static_cast<std::uint32_t>(t)));
    const float a = expected_[channel][t], b = expected_[channel + 1][t];
    first[t] = std::fma(a, turns[t].cosine, -(b * turns[t].sine));
    second[t] = std::fma(b, turns[t].cosine, a * turns[t].sine);
  }
  code_guesses(channels[channel], sigma_class, first, code);
  for (std::size_t t = 0; t < tokens_; ++t) values_[t] = value_of(format, patterns_[t]);
  code_guesses(channels[channel + 1], sigma_class, second, code);
  for (std::size_t t = 0; t < tokens_; ++t) {
    const Turn turn = turns[t];
    const float value_a = values_[t], value_b = value_of(format, patterns_[t]);
    const float a = tame(value_a * per_sigma - first[t]);
    const float b = tame(value_b * per_sigma - second[t]);
    errors_[channel][t] = std::fma(a, turn.cosine, b * turn.sine);
    errors_[channel + 1][t] = std::fma(b, turn.cosine, -(a * turn.sine));
    scales_[t].add(errors_[channel][t]);
    scales_[t].add(errors_[channel + 1][t]);
    keep_input(layer, channel, t, std::fma(value_a, turn.cosine, value_b * turn.sine));
    keep_input(layer, channel + 1, t, std::fma(value_b, turn.cosine, -(value_a * turn.sine)));
  }
  return channel + 2;
}

void LinearPass::keep_input(const LinearLayer& layer, std::size_t channel, std::size_t token,
                            float value) {
  const float units = (value - layer.mean[channel]) * layer.input_scale[channel];
  inputs_.back()[token * order_.size() + channel] =
      std::isfinite(units) ? to_int8(units) : std::int8_t{0};
}

void LinearPass::learn_in_panel(const LinearLayer& layer, std::size_t channel, std::size_t panel) {
  const std::size_t end = std::min(panel + panel_channels, order_.size());
  for (std::size_t c = channel + 1; c < end; ++c) {
    const float weight = layer.in_panel[c * panel_channels + (channel - panel)];
    if (weight == 0) continue;
    for (std::size_t t = 0; t < tokens_; ++t) {
      expected_[c][t] = std::fma(errors_[channel][t], weight, expected_[c][t]);
    }
  }
}

void LinearPass::learn_from_panel(const LinearLayer& layer, std::size_t first, std::size_t end) {
  const std::size_t count = end - first;
  // Of the end of the panel: what is said of a token before its first errors may be far off.
  std::vector<float> scales;
  std::vector<std::int8_t> errors(tokens_ * count);
  for (std::size_t t = 0; t < tokens_; ++t) {
    scales.push_back(scale_of(scales_[t].step()));
    const float per_scale = scale_of(-scales_[t].step()) * error_int8_units;
    for (std::size_t j = 0; j < count; ++j) {
      errors[t * count + j] = to_int8(errors_[first + j][t] * per_scale);
    }
  }
  for (std::size_t c = end; c < order_.size(); ++c) {
    const std::int8_t* const row = layer.joint.data() + c * order_.size() + first;
    for (std::size_t t = 0; t < tokens_; ++t) {
      const auto sum = static_cast<float>(dot(row, errors.data() + t * count, count));
      expected_[c][t] = std::fma(sum, layer.joint_scale[c] * scales[t], expected_[c][t]);
    }
  }
}

}  // namespace kvstrata::codec
