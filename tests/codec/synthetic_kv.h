// Synthetic KV: per-channel Gaussians whose widths vary as those of real caches do, some channels
// with a mean far from 0. Reproducible from a seed; the same on every machine of one libm.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "codec/geometry.h"
#include "codec/scalar_format.h"

namespace kvstrata::test {

/// The bit pattern of `value` in `dtype`, rounded to nearest; ranges clamp.
inline std::uint32_t pattern_of(DType dtype, float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == DType::fp32) return bits;
  if (dtype == DType::int8) {
    return static_cast<std::uint32_t>(std::lrintf(std::clamp(value * 24, -127.0F, 127.0F))) & 0xff;
  }
  const codec::ScalarFormat format = codec::scalar_format(dtype);
  const auto bias = static_cast<std::int32_t>((1U << (format.key_bits - 1)) - 1);
  const std::uint32_t sign = bits >> 31;
  const std::uint32_t rounding = 1U << (22 - format.mantissa_bits);
  const std::uint32_t rounded = (bits & 0x7fffffff) + rounding;
  const std::int32_t exponent = static_cast<std::int32_t>(rounded >> 23) - 127 + bias;
  if (exponent <= 0) return format.join(0, sign, 0);
  const auto top = static_cast<std::int32_t>((1U << format.key_bits) - 2);
  if (exponent > top) return format.join(static_cast<std::uint32_t>(top), sign, 0);
  const std::uint32_t mantissa =
      (rounded >> (23 - format.mantissa_bits)) & ((1U << format.mantissa_bits) - 1);
  return format.join(static_cast<std::uint32_t>(exponent), sign, mantissa);
}

/// Visits every scalar of a payload as visit(sub-stream, channel, token, byte offset).
template <typename Visit>
void for_each_scalar(const codec::BlockShape& shape, Visit&& visit) {
  for (std::uint32_t s = 0; s < shape.substreams(); ++s) {
    const codec::Placement place = codec::placement_of(shape, s);
    for (std::uint32_t channel = 0; channel < place.channels(); ++channel) {
      for (std::uint32_t token = 0; token < place.tokens(); ++token) {
        visit(s, channel, token, place.at(channel, token));
      }
    }
  }
}

/// One payload of `shape`. `model` fixes the channels' widths and means, `text` the draw.
inline ByteVector synthetic_kv(const codec::BlockShape& shape, std::uint64_t model,
                               std::uint64_t text) {
  std::mt19937_64 channel_random, random(text);
  std::normal_distribution<float> normal;
  ByteVector payload(shape.raw_bytes(), std::byte{0x5a});
  const std::size_t scalar_bytes = bytes_per_scalar(shape.dtype);
  float sigma = 1, mean = 0;
  for_each_scalar(
      shape, [&](std::uint32_t s, std::uint32_t channel, std::uint32_t token, std::uint64_t at) {
        if (token == 0) {
          channel_random.seed(model * 1000003 + s * 65537 + channel);
          std::normal_distribution<float> width;
          sigma = std::exp2(width(channel_random) * 1.5F - 1);
          mean = channel_random() % 5 == 0 ? 4 * sigma * width(channel_random) : 0;
        }
        const std::uint32_t bits = pattern_of(shape.dtype, mean + sigma * normal(random));
        std::memcpy(payload.data() + at, &bits, scalar_bytes);
      });
  return payload;
}

/// A shape of the given axes.
inline codec::BlockShape block_shape(DType dtype, std::uint32_t layers, std::uint32_t heads,
                                     std::uint32_t head_dim, std::uint32_t tokens,
                                     std::string k_axes = "LSPHTC", std::string v_axes = "",
                                     std::uint32_t page_tokens = 0) {
  codec::BlockShape shape;
  shape.dtype = dtype;
  shape.layers = layers;
  shape.kv_heads = heads;
  shape.head_dim_k = shape.head_dim_v = head_dim;
  shape.tokens = tokens;
  shape.layout.k_axes = k_axes;
  shape.layout.v_axes = v_axes.empty() ? k_axes : v_axes;
  shape.layout.page_tokens = page_tokens;
  return shape;
}

}  // namespace kvstrata::test
