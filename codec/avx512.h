// The AVX-512 kernels, for CPUs with VBMI2: bytes of a stream expand into lanes in one instruction.
// Every function carries KV_AVX512; they are reached only after kernels_of() has seen the CPU.
// Stateless functions.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "codec/kernels.h"
#include "codec/static_tables.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's own headers read a register they call undefined (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define KV_AVX512                                                         \
  __attribute__((                                                         \
      target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
             "popcnt")))
#define KV_AVX512_INLINE                                                             \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
                        "popcnt"),                                                   \
                 always_inline)) inline

namespace kvstrata::codec::avx512 {

inline constexpr std::size_t half_lanes = 64;  ///< one register of bytes; 2 make a step
inline constexpr std::size_t half_units = half_lanes / unit_lanes;
inline constexpr std::size_t halves = lanes / half_lanes;
inline constexpr __mmask64 odd_lanes = 0xaaaaaaaaaaaaaaaa;

KV_AVX512_INLINE __m512i load(const void* at) {
  return _mm512_loadu_si512(at);
}
KV_AVX512_INLINE void store(void* at, __m512i value) {
  _mm512_storeu_si512(at, value);
}
KV_AVX512_INLINE __m128i load_line(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

/// 16-bit values of the even and of the odd bytes, and their bytes back in place.
KV_AVX512_INLINE __m512i even_bytes(__m512i value) {
  return _mm512_and_si512(value, _mm512_set1_epi16(0xff));
}
KV_AVX512_INLINE __m512i odd_bytes(__m512i value) {
  return _mm512_srli_epi16(value, 8);
}
KV_AVX512_INLINE __m512i join_low_bytes(__m512i even, __m512i odd) {
  return _mm512_mask_mov_epi8(even, odd_lanes, _mm512_slli_epi16(odd, 8));
}
KV_AVX512_INLINE __m512i join_high_bytes(__m512i even, __m512i odd) {
  return _mm512_mask_mov_epi8(_mm512_srli_epi16(even, 8), odd_lanes, odd);
}

/// One line of the tables of 4 units. `same`: all units of the step share one table.
template <bool same, typename Table>
KV_AVX512_INLINE __m512i load_lines(const Table* tables, const std::uint8_t* unit_table,
                                    std::array<std::uint8_t, symbols> Table::* line) {
  const __m128i first = load_line(&(tables[unit_table[0]].*line));
  if constexpr (same) return _mm512_broadcast_i32x4(first);
  __m512i lines = _mm512_castsi128_si512(first);
  lines = _mm512_inserti32x4(lines, load_line(&(tables[unit_table[1]].*line)), 1);
  lines = _mm512_inserti32x4(lines, load_line(&(tables[unit_table[2]].*line)), 2);
  return _mm512_inserti32x4(lines, load_line(&(tables[unit_table[3]].*line)), 3);
}

/// The states of all lanes while a kernel runs; `Coder` is RansDecoder or RansEncoder.
struct States {
  __m512i low[halves], high[halves];

  template <typename Coder>
  KV_AVX512_INLINE explicit States(const Coder& coder) {
    for (std::size_t h = 0; h < halves; ++h) {
      low[h] = load(&coder.low[h * half_lanes]);
      high[h] = load(&coder.high[h * half_lanes]);
    }
  }
  template <typename Coder>
  KV_AVX512_INLINE void keep(Coder& coder) const {
    for (std::size_t h = 0; h < halves; ++h) {
      store(&coder.low[h * half_lanes], low[h]);
      store(&coder.high[h * half_lanes], high[h]);
    }
  }
};

KV_AVX512_INLINE std::size_t bits_of(__mmask64 mask) {
  return static_cast<std::size_t>(_mm_popcnt_u64(mask));
}

const char* decode(DType dtype, bool sign_coded, StepInput& input, const DecodeTable* tables,
                   const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* scalars);
bool decode_symbols(RansDecoder& decoder, const DecodeTable* tables, const std::uint8_t* unit_table,
                    std::size_t steps, std::uint8_t* symbols_out);
std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                     const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                     std::size_t steps, std::uint8_t* out_end);

void gather(const Tile& tile, const std::uint8_t* payload, const std::uint32_t* first_lane,
            std::uint8_t* rows);
void scatter(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
             std::uint8_t* payload);

}  // namespace kvstrata::codec::avx512
