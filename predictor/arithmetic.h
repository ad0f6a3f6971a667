// The numbers of doc/predictor-arithmetic.md: every function here is a line of that page, and gives
// the same bits on any machine. Stateless; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kvstrata::predictor {

inline constexpr float top_of_8_bits = 127, top_of_13_bits = 4095;

/// No NaN, no infinity.
bool all_finite(std::span<const float> v);

/// e^x for x <= 0, within 1.4 · 2^-24 of it; never subnormal.
float exp_of_negative(float x);
/// z / (1 + e^-z).
float silu(float z);
/// Σ v², in 32 lanes and a tree.
float sum_of_squares(std::span<const float> v);

/// Rounds v / scale to integers within ±top; the codes beyond v are 0 (codes is as long or longer).
/// Returns the scale. False in `finite` (which is not touched else): v holds a NaN or an infinity.
float quantise(std::span<const float> v, float top, std::span<std::int16_t> codes, bool& finite);

/// out[j] = v[j] / sqrt(mean of squares + eps) · weight[j]. False if what v is divided by is not a
/// finite number above 0.
bool norm(std::span<const float> v, float eps, std::span<const float> weight, std::span<float> out);

/// Turns the pairs (j, j + n/2) of the first n = 2 · cosines.size() channels; or, with sign -1,
/// back.
void turn(std::span<float> head, std::span<const float> cosines, std::span<const float> sines,
          float sign = 1);

}  // namespace kvstrata::predictor
