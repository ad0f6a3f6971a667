// TokenScales: how well each token is predicted, in steps of 2^(1/4), from the errors seen so far:
// those of the layer below, then those of the channels before. Integers only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace kvstrata::codec {

/// Errors are counted in units of their mean of 0.8 sigma, 64 to it, and 9 sigmas at most.
inline constexpr float error_units = 80.0F;
inline constexpr std::int32_t error_units_max = 720;
inline constexpr std::int64_t expected_units = 64;

inline constexpr int scale_step_max = 40;
/// A scale is taken anew after so many channels; what is said of a token before counts like that
/// many.
inline constexpr std::uint32_t scale_channels = 32, scale_prior_channels = 16;

/// 2^(step / 4), the same float on every machine.
inline float scale_of(int step) {
  constexpr std::array<float, 4> part{1.0F, 1.1892071F, 1.4142135F, 1.6817929F};
  return std::ldexp(part[static_cast<std::size_t>(step & 3)], step >> 2);
}

/// |error| / sigma in units, rounded to even.
inline std::int32_t units_of(float error) {
  const float units = std::fabs(error) * error_units;
  return units < static_cast<float>(error_units_max)
             ? static_cast<std::int32_t>(std::nearbyint(units))
             : error_units_max;
}

/// 4 log2(value / 64), rounded to the nearest step; `value` in 256ths.
constexpr int scale_step(std::uint64_t value_256) {
  const std::uint64_t value = std::max<std::uint64_t>(value_256, 1);
  const int top = static_cast<int>(std::bit_width(value)) - 1;
  // 2^(1/8), 2^(3/8), 2^(5/8), 2^(7/8) in 65536ths above one.
  constexpr std::array<std::uint64_t, 4> bounds{71468, 84990, 101070, 120194};
  const std::uint64_t mantissa = top >= 16 ? value >> (top - 16) : value << (16 - top);
  int step = 4 * (top - 14);  // 64 is 2^14 of 256ths
  for (const std::uint64_t bound : bounds) step += mantissa >= bound ? 1 : 0;
  return std::clamp(step, -scale_step_max, scale_step_max);
}

/// All tokens of a block while a layer is coded.
class TokenScales {
 public:
  explicit TokenScales(std::size_t tokens) : steps_(tokens), units_(tokens), prior_256_(tokens) {}

  /// A layer begins, with (slope · layer_steps[t] + offset) / 256, rounded.
  void begin(std::int32_t slope_256, std::int32_t offset_256, const std::vector<int>& layer_steps) {
    channels_ = 0;
    for (std::size_t t = 0; t < steps_.size(); ++t) {
      const std::int64_t first = std::int64_t{slope_256} * layer_steps[t] + offset_256 + 128;
      steps_[t] = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(first >> 8, -scale_step_max, scale_step_max));
      units_[t] = 0;
      const float scale = scale_of(steps_[t]) * static_cast<float>(expected_units * 256);
      prior_256_[t] = static_cast<std::uint64_t>(std::nearbyint(scale)) * scale_prior_channels;
    }
  }

  const std::int32_t* steps() const { return steps_.data(); }
  /// Where the units of a channel's errors are added.
  std::uint32_t* units() { return units_.data(); }
  /// The units of so many channels, one or a pair, have been added.
  void channels_added(std::uint32_t count) {
    channels_ += count;
    if (channels_ / scale_channels == (channels_ - count) / scale_channels) return;
    for (std::size_t t = 0; t < steps_.size(); ++t) {
      const std::uint64_t sum_256 = prior_256_[t] + std::uint64_t{units_[t]} * 256;
      steps_[t] = scale_step(sum_256 / (scale_prior_channels + channels_));
    }
  }
  /// Of the whole layer, for the layer above.
  int layer_step(std::size_t token) const {
    return scale_step(std::uint64_t{units_[token]} * 256 / std::max(channels_, 1U));
  }

 private:
  std::vector<std::int32_t> steps_;
  std::vector<std::uint32_t> units_;
  std::vector<std::uint64_t> prior_256_;
  std::uint32_t channels_ = 0;
};

}  // namespace kvstrata::codec
