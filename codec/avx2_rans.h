// What the AVX2 and the AVX-512 decoder share: table lines, the search for a symbol, and a state's
// step up to the point where it needs bytes. Compiled for AVX2, inlined into either.
#pragma once

#include <cstring>

#include "codec/avx2.h"

namespace kvstrata::codec::avx2 {

/// True if all 8 units of a step use one table.
inline bool one_table(const std::uint8_t* unit_table) {
  std::uint64_t units = 0;
  std::memcpy(&units, unit_table, sizeof units);
  return units == unit_table[0] * 0x0101010101010101U;
}

/// The table lines that decoding a quarter needs. `same`: all units of the step share one table.
struct DecodeLines {
  __m256i tree, frequency, cumulative;

  template <bool same>
  KV_AVX2_INLINE static DecodeLines of(const DecodeTable* tables, const std::uint8_t* unit_table) {
    const DecodeTable& low = tables[unit_table[0]];
    const DecodeTable& high = tables[unit_table[same ? 0 : 1]];
    return {load_halves<same>(low.tree.data(), high.tree.data()),
            load_halves<same>(low.frequency.data(), high.frequency.data()),
            load_halves<same>(low.cumulative.data(), high.cumulative.data())};
  }
};

/// A quarter's states after a symbol, before those below 256 take a byte.
struct Advanced {
  __m256i low, high, symbol;
};

/// Finds the symbols of 32 slots; their number plus 16.
KV_AVX2_INLINE __m256i find_nodes(__m256i tree, __m256i slots) {
  const __m256i biased = _mm256_xor_si256(slots, bytes(0x80));
  const __m256i root = _mm256_shuffle_epi8(tree, bytes(1));
  __m256i nodes = _mm256_sub_epi8(bytes(2), _mm256_cmpgt_epi8(biased, root));
  for (int level = 1; level < 4; ++level) {
    const __m256i thresholds = _mm256_shuffle_epi8(tree, nodes);
    nodes = _mm256_sub_epi8(_mm256_add_epi8(nodes, nodes), _mm256_cmpgt_epi8(biased, thresholds));
  }
  return nodes;
}

KV_AVX2_INLINE Advanced advance(const DecodeLines& lines, __m256i low, __m256i high) {
  const __m256i nodes = find_nodes(lines.tree, low);
  const __m256i frequency = _mm256_shuffle_epi8(lines.frequency, nodes);
  const __m256i rest = _mm256_sub_epi8(low, _mm256_shuffle_epi8(lines.cumulative, nodes));
  const __m256i even = _mm256_add_epi16(_mm256_mullo_epi16(even_bytes(frequency), even_bytes(high)),
                                        even_bytes(rest));
  const __m256i odd =
      _mm256_add_epi16(_mm256_mullo_epi16(odd_bytes(frequency), odd_bytes(high)), odd_bytes(rest));
  return {join_low_bytes(even, odd), join_high_bytes(even, odd),
          _mm256_xor_si256(nodes, bytes(16))};
}

}  // namespace kvstrata::codec::avx2
