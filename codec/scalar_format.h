// ScalarFormat: how the static codec cuts a scalar of each type into key, sign and mantissa.
// Constants of the format; constexpr, so that kernels are specialised by type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kvstrata/model.h"

namespace kvstrata::codec {

struct ScalarFormat {
  std::uint32_t bytes;
  std::uint32_t mantissa_bits;
  std::uint32_t key_bits;
  std::uint32_t sign_bits;  ///< 0 or 1

  /// Bits a lane that are not entropy-coded.
  constexpr std::uint32_t raw_width(bool sign_coded) const {
    return mantissa_bits + (sign_coded ? 0 : sign_bits);
  }
  constexpr std::uint32_t key(std::uint32_t bits) const {
    return (bits >> mantissa_bits) & ((1U << key_bits) - 1);
  }
  constexpr std::uint32_t sign(std::uint32_t bits) const {
    return sign_bits == 0 ? 0 : bits >> (mantissa_bits + key_bits);
  }
  constexpr std::uint32_t mantissa(std::uint32_t bits) const {
    return bits & ((1U << mantissa_bits) - 1);
  }
  /// The scalar of a key, a sign and a mantissa; bits that do not belong are cut off.
  constexpr std::uint32_t join(std::uint32_t key, std::uint32_t sign,
                               std::uint32_t mantissa) const {
    const std::uint32_t key_part = key & ((1U << key_bits) - 1);
    return (sign_bits == 0 ? 0 : sign << (mantissa_bits + key_bits)) | key_part << mantissa_bits |
           mantissa;
  }
};

constexpr ScalarFormat scalar_format(DType dtype) {
  switch (dtype) {
    case DType::bf16: return {2, 7, 8, 1};
    case DType::fp16: return {2, 10, 5, 1};
    case DType::fp8_e4m3: return {1, 3, 4, 1};
    case DType::fp8_e5m2: return {1, 2, 5, 1};
    case DType::int8: return {1, 4, 4, 0};
    case DType::fp32: return {4, 23, 8, 1};
  }
  return {1, 4, 4, 0};
}

/// The bit pattern of a scalar of `bytes` bytes at any address.
inline std::uint32_t load_scalar(const void* at, std::size_t bytes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, bytes);
  return bits;
}

/// Calls visit with the type as a constant.
template <typename Visit>
auto with_dtype(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::bf16: return visit.template operator()<DType::bf16>();
    case DType::fp16: return visit.template operator()<DType::fp16>();
    case DType::fp8_e4m3: return visit.template operator()<DType::fp8_e4m3>();
    case DType::fp8_e5m2: return visit.template operator()<DType::fp8_e5m2>();
    case DType::fp32: return visit.template operator()<DType::fp32>();
    case DType::int8: break;
  }
  return visit.template operator()<DType::int8>();
}

}  // namespace kvstrata::codec
