// TokenScale: how well a token is predicted, in steps of 2^(1/4), from the errors seen so far:
// those of the layer below, then those of the channels before. Integers only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace kvstrata::codec {

/// Errors are counted in units of their mean of 0.8 sigma, 64 to it, and 9 sigmas at most.
inline constexpr float error_units = 80.0F;
inline constexpr std::int32_t error_units_max = 720;
inline constexpr std::int64_t expected_units = 64;

inline constexpr int scale_step_max = 40;
/// A scale is taken anew after so many channels; what is said of a token before counts like that
/// many.
inline constexpr std::size_t scale_channels = 32, scale_prior_channels = 16;

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
             : error_units_max;  // also for what is no number
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

/// The state of one token while a layer is coded.
class TokenScale {
 public:
  /// `first`: the step the layer begins with.
  explicit TokenScale(int first) : step_(std::clamp(first, -scale_step_max, scale_step_max)) {
    // 16 channels' worth of it, in 256ths of units.
    sum_256_ = static_cast<std::uint64_t>(
                   std::nearbyint(scale_of(step_) * static_cast<float>(expected_units * 256))) *
               scale_prior_channels;
    weight_ = scale_prior_channels;
  }

  int step() const { return step_; }
  void add(float error) {
    const auto units = static_cast<std::uint64_t>(units_of(error));
    sum_256_ += units * 256;
    all_units_ += units;
    ++weight_;
    ++channels_;
    if (channels_ % scale_channels == 0) step_ = scale_step(sum_256_ / weight_);
  }
  /// Of the whole layer, for the layer above.
  int layer_step() const {
    return scale_step(all_units_ * 256 / std::max<std::uint64_t>(channels_, 1));
  }

 private:
  int step_;
  std::uint64_t sum_256_ = 0, all_units_ = 0, weight_ = 0, channels_ = 0;
};

}  // namespace kvstrata::codec
