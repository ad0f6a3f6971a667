// Numbers of the linear codec: from patterns, and to int8. Pure functions; the rounding is that of
// PlainFloats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "codec/linear/cell.h"

namespace kvstrata::codec {

/// Errors that are learned from are no larger.
inline constexpr float error_max = 1024;

/// The number a pattern of a floating dtype stands for; all-ones keys go on as if they were
/// numbers, where binary32 has them.
inline float value_of(const ScalarFormat& format, std::uint32_t pattern) {
  const FloatRange range(format);
  const std::uint32_t key = format.key(pattern);
  const std::uint32_t significand =
      format.mantissa(pattern) | (key == 0 ? 0U : 1U << format.mantissa_bits);
  const float size =
      std::ldexp(static_cast<float>(significand), range.exponent_of(key) - range.mantissa_bits);
  return format.sign(pattern) != 0 ? -size : size;
}

/// An error that can be learned from, whatever the scalar was.
inline float tame(float error) {
  return std::isfinite(error) ? std::clamp(error, -error_max, error_max) : 0.0F;
}

/// Of a number that is finite: rounded to even, within 127.
inline std::int8_t to_int8(float value) {
  return static_cast<std::int8_t>(std::nearbyint(std::clamp(value, -127.0F, 127.0F)));
}

}  // namespace kvstrata::codec
