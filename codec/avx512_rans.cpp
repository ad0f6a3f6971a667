// rANS with AVX-512. Decoding is avx2_rans.cpp's, 32 lanes a register, because compares into masks
// would lengthen the chain from symbol to symbol; only the stream's bytes are expanded by VBMI2.
// Encoding has no such chain and takes 64 lanes a register.
#include "codec/avx2_rans.h"
#include "codec/avx512.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's own headers read a register they call undefined (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace kvstrata::codec::avx512 {

namespace {

constexpr std::size_t half_lanes = 64;
constexpr std::size_t half_units = half_lanes / unit_lanes;
constexpr std::size_t halves = lanes / half_lanes;
constexpr __mmask64 odd_lanes = 0xaaaaaaaaaaaaaaaa;

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

template <bool same>
KV_AVX512_INLINE __m512i look_up(const EncodeTable* tables, const std::uint8_t* unit_table,
                                 std::array<std::uint8_t, symbols> EncodeTable::* line,
                                 __m512i symbol) {
  return _mm512_shuffle_epi8(load_lines<same>(tables, unit_table, line), symbol);
}

struct States {
  __m512i low[halves], high[halves];
};

KV_AVX512_INLINE std::size_t bits_of(__mmask64 mask) {
  return static_cast<std::size_t>(_mm_popcnt_u64(mask));
}

/// Two registers of 32 lanes for each of low and high.
struct QuarterStates {
  __m256i low[avx2::quarters], high[avx2::quarters];
};

template <bool same>
KV_AVX512_INLINE const std::uint8_t* decode_step(QuarterStates& states, const DecodeTable* tables,
                                                 const std::uint8_t* unit_table,
                                                 const std::uint8_t* next,
                                                 std::uint8_t* symbols_out) {
  avx2::DecodeLines lines = avx2::DecodeLines::of<same>(tables, unit_table);
#pragma GCC unroll 4
  for (std::size_t q = 0; q < avx2::quarters; ++q) {
    if (!same && q != 0) lines = avx2::DecodeLines::of<same>(tables, unit_table + 2 * q);
    const avx2::Advanced to = avx2::advance(lines, states.low[q], states.high[q]);
    const __mmask32 starved = _mm256_testn_epi8_mask(to.high, to.high);
    __m256i stream = avx2::load(next);
    asm("" : "+v"(stream));  // apart from the expansion, whose form with memory is slow on Zen 4
    states.low[q] = _mm256_mask_expand_epi8(to.low, starved, stream);
    states.high[q] = _mm256_mask_mov_epi8(to.high, starved, to.low);
    next += bits_of(starved);
    avx2::store(symbols_out + q * avx2::quarter_lanes, to.symbol);
  }
  return next;
}

/// 16-bit state / divisor by a reciprocal that gives at most 1 too little; the rest tells.
KV_AVX512_INLINE __m512i divide(__m512i state, __m512i divisor, __m512i reciprocal, __m512i& rest) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i quotient = _mm512_mulhi_epu16(state, reciprocal);
  rest = _mm512_sub_epi16(state, _mm512_mullo_epi16(quotient, divisor));
  const __mmask32 low = _mm512_cmpge_epu16_mask(rest, divisor);
  rest = _mm512_mask_sub_epi16(rest, low, rest, divisor);
  return _mm512_mask_add_epi16(quotient, low, quotient, one);
}

/// 64 lanes of one step, downwards from `out`.
template <bool same>
KV_AVX512_INLINE std::uint8_t* encode_half(const EncodeTable* tables,
                                           const std::uint8_t* unit_table, __m512i symbol,
                                           __m512i& low, __m512i& high, std::uint8_t* out) {
  using Table = EncodeTable;
  const __m512i frequency = look_up<same>(tables, unit_table, &Table::frequency, symbol);
  const __mmask64 full = _mm512_cmpge_epu8_mask(high, frequency);
  const std::size_t written = bits_of(full);
  out -= written;
  _mm512_mask_storeu_epi8(out, _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(written)),
                          _mm512_maskz_compress_epi8(full, low));
  low = _mm512_mask_mov_epi8(low, full, high);
  high = _mm512_maskz_mov_epi8(~full, high);
  const __m512i reciprocal_low = look_up<same>(tables, unit_table, &Table::reciprocal_low, symbol);
  const __m512i reciprocal_high =
      look_up<same>(tables, unit_table, &Table::reciprocal_high, symbol);
  __m512i even_rest, odd_rest;
  const __m512i even = divide(join_low_bytes(low, high), even_bytes(frequency),
                              join_low_bytes(reciprocal_low, reciprocal_high), even_rest);
  const __m512i odd = divide(join_high_bytes(low, high), odd_bytes(frequency),
                             join_high_bytes(reciprocal_low, reciprocal_high), odd_rest);
  high = join_low_bytes(even, odd);
  low = _mm512_add_epi8(join_low_bytes(even_rest, odd_rest),
                        look_up<same>(tables, unit_table, &Table::cumulative, symbol));
  return out;
}

template <bool same>
KV_AVX512_INLINE std::uint8_t* encode_step(States& states, const EncodeTable* tables,
                                           const std::uint8_t* unit_table,
                                           const std::uint8_t* step_symbols, std::uint8_t* out) {
  out = encode_half<same>(tables, unit_table + half_units, load(step_symbols + half_lanes),
                          states.low[1], states.high[1], out);
  return encode_half<same>(tables, unit_table, load(step_symbols), states.low[0], states.high[0],
                           out);
}

}  // namespace

KV_AVX512 bool decode(RansDecoder& decoder, const DecodeTable* tables,
                      const std::uint8_t* unit_table, std::size_t steps,
                      std::uint8_t* symbols_out) {
  using avx2::quarter_lanes, avx2::quarters;
  constexpr std::ptrdiff_t step_reads = lanes + quarter_lanes;
  QuarterStates states;
  for (std::size_t q = 0; q < quarters; ++q) {
    states.low[q] = avx2::load(&decoder.low[q * quarter_lanes]);
    states.high[q] = avx2::load(&decoder.high[q * quarter_lanes]);
  }
  const std::uint8_t* next = decoder.next;
  const std::uint8_t* const readable_end = decoder.readable_end;
  std::size_t step = 0;
  for (; step < steps && readable_end - next >= step_reads; ++step) {
    const std::uint8_t* const units = unit_table + step * step_units;
    std::uint8_t* const out = symbols_out + step * lanes;
    next = avx2::one_table(units) ? decode_step<true>(states, tables, units, next, out)
                                  : decode_step<false>(states, tables, units, next, out);
  }
  for (std::size_t q = 0; q < quarters; ++q) {
    avx2::store(&decoder.low[q * quarter_lanes], states.low[q]);
    avx2::store(&decoder.high[q * quarter_lanes], states.high[q]);
  }
  if (next > decoder.end) return false;
  decoder.next = next;
  return scalar_kernels.decode(decoder, tables, unit_table + step * step_units, steps - step,
                               symbols_out + step * lanes);
}

KV_AVX512 std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                               const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                               std::size_t steps, std::uint8_t* out_end) {
  States states;
  for (std::size_t h = 0; h < halves; ++h) {
    states.low[h] = load(&encoder.low[h * half_lanes]);
    states.high[h] = load(&encoder.high[h * half_lanes]);
  }
  std::uint8_t* out = out_end;
  for (std::size_t step = steps; step-- > 0;) {
    const std::uint8_t* const units = unit_table + step * step_units;
    out = avx2::one_table(units)
              ? encode_step<true>(states, tables, units, symbols_in + step * lanes, out)
              : encode_step<false>(states, tables, units, symbols_in + step * lanes, out);
  }
  for (std::size_t h = 0; h < halves; ++h) {
    store(&encoder.low[h * half_lanes], states.low[h]);
    store(&encoder.high[h * half_lanes], states.high[h]);
  }
  return out;
}

}  // namespace kvstrata::codec::avx512
