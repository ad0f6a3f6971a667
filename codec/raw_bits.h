// Raw bits of one step, packed as planes: see "Raw bits" in doc/frame-format.md. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/static_format.h"

namespace kvstrata::codec {

/// Bytes that `width` raw bits a lane take per step.
constexpr std::size_t raw_step_bytes(std::uint32_t width) {
  return lanes / 8 * width;
}

/// Calls visit(shift, bits) for each plane of `width` bits, from the low end up.
template <typename Visit>
constexpr void for_each_plane(std::uint32_t width, Visit&& visit) {
  std::uint32_t shift = 0;
  for (; shift + 8 <= width; shift += 8) visit(shift, 8U);
  for (const std::uint32_t bits : {4U, 2U, 1U}) {
    if ((width % 8 & bits) == 0) continue;
    visit(shift, bits);
    shift += bits;
  }
}

/// Packs the low `width` bits of 128 values; writes raw_step_bytes(width).
inline void pack_step(const std::uint32_t* values, std::uint32_t width, std::uint8_t* out) {
  for_each_plane(width, [&](std::uint32_t shift, std::uint32_t bits) {
    const std::size_t plane_bytes = lanes / 8 * bits;
    const std::uint32_t mask = (1U << bits) - 1;
    for (std::size_t j = 0; j < plane_bytes; ++j) {
      std::uint32_t byte = 0;
      for (std::uint32_t n = 0; n * bits < 8; ++n) {
        byte |= (values[j + plane_bytes * n] >> shift & mask) << (bits * n);
      }
      out[j] = static_cast<std::uint8_t>(byte);
    }
    out += plane_bytes;
  });
}

/// The reverse of pack_step: 128 values of `width` bits.
inline void unpack_step(const std::uint8_t* in, std::uint32_t width, std::uint32_t* values) {
  for (std::size_t i = 0; i < lanes; ++i) values[i] = 0;
  for_each_plane(width, [&](std::uint32_t shift, std::uint32_t bits) {
    const std::size_t plane_bytes = lanes / 8 * bits;
    const std::uint32_t mask = (1U << bits) - 1;
    for (std::size_t j = 0; j < plane_bytes; ++j) {
      for (std::uint32_t n = 0; n * bits < 8; ++n) {
        values[j + plane_bytes * n] |= (static_cast<std::uint32_t>(in[j]) >> (bits * n) & mask)
                                       << shift;
      }
    }
    in += plane_bytes;
  });
}

}  // namespace kvstrata::codec
