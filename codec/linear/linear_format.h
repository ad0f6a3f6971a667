// The head of a stored linear model, version 1. See doc/linear-format.md. Plain data, read and
// written by memcpy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvstrata::codec {

inline constexpr std::uint32_t linear_magic = 0x4c53564b;  // "KVSL"
inline constexpr std::uint8_t linear_version = 1;
/// So that a sum over 8 layers below of products of int8 stays in an int32.
inline constexpr std::uint32_t linear_channels_max = 16'384;

struct LinearHeader {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t dtype;
  std::uint16_t reserved_0;
  std::uint32_t layers;
  std::uint32_t kv_heads;
  std::uint32_t head_dim_k;
  std::uint32_t head_dim_v;
  std::uint32_t rotary_dim;
  std::uint32_t reserved_1;
  std::uint64_t body_xxh3;  ///< of everything after the header
};
static_assert(sizeof(LinearHeader) == 40 && offsetof(LinearHeader, body_xxh3) == 32);

struct LinearLayerHeader {
  std::uint32_t below;
  std::int32_t scale_slope_256;
  std::int32_t scale_offset_256;
};
static_assert(sizeof(LinearLayerHeader) == 12);

}  // namespace kvstrata::codec
