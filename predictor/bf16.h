// bf16 is the upper half of binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace kvstrata::predictor {

constexpr float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// The nearest, ties to even; an infinity for numbers beyond bf16's.
constexpr std::uint16_t nearest_bf16(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1U)) >> 16);
}

}  // namespace kvstrata::predictor
