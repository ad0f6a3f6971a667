#include "predictor/arithmetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace kvstrata::predictor {

namespace {

constexpr std::size_t sum_lanes = 32;
constexpr std::uint32_t infinity_bits = 0x7f800000;
constexpr float smallest_scaled = 0x1p-100F;

constexpr float of_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

}  // namespace

bool all_finite(std::span<const float> v) {
  return std::ranges::all_of(v, [](float number) { return std::isfinite(number); });
}

float exp_of_negative(float x) {
  constexpr float log2_e = of_bits(0x3fb8aa3b);
  constexpr float ln_2 = of_bits(0x3f317218), ln_2_rest = of_bits(0xb102e308);
  constexpr std::array<float, 6> series{of_bits(0x39506967), of_bits(0x3ab743ce),
                                        of_bits(0x3c088908), of_bits(0x3d2aa9c1),
                                        of_bits(0x3e2aaaaa), of_bits(0x3f000000)};
  x = x > -87 ? x : -87;  // also where x is a NaN
  const float n = std::nearbyint(x * log2_e);
  const float r = std::fma(-n, ln_2_rest, std::fma(-n, ln_2, x));
  float q = series[0];
  for (std::size_t i = 1; i < series.size(); ++i) q = std::fma(q, r, series[i]);
  const float y = std::fma(q, r * r, r) + 1;
  return of_bits(std::bit_cast<std::uint32_t>(y) +
                 (static_cast<std::uint32_t>(static_cast<std::int32_t>(n)) << 23));
}

float silu(float z) {
  const float t = exp_of_negative(-std::fabs(z));
  const float b = 1 + t;
  return z * (z >= 0 ? 1 / b : t / b);
}

float sum_of_squares(std::span<const float> v) {
  std::array<float, sum_lanes> sums{};
  for (std::size_t i = 0; i < v.size(); ++i) {
    float& sum = sums[i % sum_lanes];
    sum = std::fma(v[i], v[i], sum);
  }
  for (std::size_t half = sum_lanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

float quantise(std::span<const float> v, float top, std::span<std::int16_t> codes, bool& finite) {
  std::uint32_t largest = 0;
  for (const float value : v) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  }
  std::ranges::fill(codes, std::int16_t{0});
  if (largest >= infinity_bits) finite = false;
  const float size = of_bits(largest);
  if (largest >= infinity_bits || size < smallest_scaled) return 0;
  const float factor = top / size;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const float scaled = std::min(std::max(v[i] * factor, -top), top);
    codes[i] = static_cast<std::int16_t>(std::nearbyint(scaled));
  }
  return size / top;
}

bool norm(std::span<const float> v, float eps, std::span<const float> weight,
          std::span<float> out) {
  const float mean = sum_of_squares(v) / static_cast<float>(v.size());
  const float factor = 1 / std::sqrt(mean + eps);
  for (std::size_t j = 0; j < v.size(); ++j) out[j] = (v[j] * factor) * weight[j];
  return std::isfinite(mean) && std::isfinite(factor);
}

void turn(std::span<float> head, std::span<const float> cosines, std::span<const float> sines,
          float sign) {
  const std::size_t pairs = cosines.size();
  for (std::size_t j = 0; j < pairs; ++j) {
    const float a = head[j], b = head[j + pairs], sine = sign * sines[j];
    head[j] = std::fma(a, cosines[j], -(b * sine));
    head[j + pairs] = std::fma(b, cosines[j], a * sine);
  }
}

}  // namespace kvstrata::predictor
