// Helpers of the AVX2 kernels. Every function of these files carries KV_AVX2, so that nothing else
// of the program is compiled for AVX2; they are reached only after kernels_of() has seen the CPU.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "codec/kernels.h"

#define KV_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define KV_AVX2_INLINE __attribute__((target("avx2,bmi,bmi2,popcnt"), always_inline)) inline

namespace kvstrata::codec::avx2 {

inline constexpr std::size_t quarter_lanes = 32;  ///< one register of bytes; 4 make a step
inline constexpr std::size_t quarters = lanes / quarter_lanes;

KV_AVX2_INLINE __m256i load(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}
KV_AVX2_INLINE void store(void* at, __m256i value) {
  _mm256_storeu_si256(static_cast<__m256i*>(at), value);
}
KV_AVX2_INLINE __m128i load_half(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}
KV_AVX2_INLINE void store_half(void* at, __m128i value) {
  _mm_storeu_si128(static_cast<__m128i*>(at), value);
}
KV_AVX2_INLINE __m256i bytes(int value) {
  return _mm256_set1_epi8(static_cast<char>(value));
}

/// Both halves: the units of a quarter, each with its own table line, or the same one.
template <bool same = false>
KV_AVX2_INLINE __m256i load_halves(const void* low, const void* high) {
  if constexpr (same) return _mm256_broadcastsi128_si256(load_half(low));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(low)), load_half(high), 1);
}

/// Shifts of bytes; bits that cross into a neighbour are cut off.
template <int bits>
KV_AVX2_INLINE __m256i shift_left(__m256i value) {
  return _mm256_and_si256(_mm256_slli_epi16(value, bits), bytes(0xff << bits));
}
template <int bits>
KV_AVX2_INLINE __m256i shift_right(__m256i value) {
  return _mm256_and_si256(_mm256_srli_epi16(value, bits), bytes(0xff >> bits));
}

/// 16-bit values of the even and of the odd bytes, and their low bytes back in place.
KV_AVX2_INLINE __m256i even_bytes(__m256i value) {
  return _mm256_and_si256(value, _mm256_set1_epi16(0xff));
}
KV_AVX2_INLINE __m256i odd_bytes(__m256i value) {
  return _mm256_srli_epi16(value, 8);
}
KV_AVX2_INLINE __m256i join_low_bytes(__m256i even, __m256i odd) {
  return _mm256_or_si256(even_bytes(even), _mm256_slli_epi16(odd, 8));
}
KV_AVX2_INLINE __m256i join_high_bytes(__m256i even, __m256i odd) {
  return _mm256_or_si256(odd_bytes(even), _mm256_and_si256(odd, _mm256_set1_epi16(-0x100)));
}

const char* decode(DType dtype, bool sign_coded, StepInput& input, const DecodeTable* tables,
                   const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* scalars);
bool decode_symbols(RansDecoder& decoder, const DecodeTable* tables, const std::uint8_t* unit_table,
                    std::size_t steps, std::uint8_t* symbols_out);
std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                     const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                     std::size_t steps, std::uint8_t* out_end);
const std::uint8_t* merge(DType dtype, bool sign_coded, const std::uint8_t* symbols_in,
                          const DecodeTable* tables, const std::uint8_t* unit_table,
                          const std::uint8_t* raw, std::size_t steps, const Escapes& escapes,
                          std::uint8_t* scalars);
std::uint8_t* split(DType dtype, bool sign_coded, const std::uint8_t* scalars,
                    const EncodeTable* tables, const std::uint8_t* unit_table, std::size_t steps,
                    std::uint8_t* symbols_out, std::uint8_t* raw, std::uint8_t* escapes);
void gather(const Tile& tile, const std::uint8_t* payload, const std::uint32_t* first_lane,
            std::uint8_t* rows);
void scatter(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
             std::uint8_t* payload);

}  // namespace kvstrata::codec::avx2
