// Encoding with AVX-512: 64 lanes a register, and VBMI2 to compress what full states give away.
#include "codec/avx2_rans.h"
#include "codec/avx512.h"

namespace kvstrata::codec::avx512 {

namespace {

template <bool same>
KV_AVX512_INLINE __m512i look_up(const EncodeTable* tables, const std::uint8_t* unit_table,
                                 std::array<std::uint8_t, symbols> EncodeTable::* line,
                                 __m512i symbol) {
  return _mm512_shuffle_epi8(load_lines<same>(tables, unit_table, line), symbol);
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

KV_AVX512 std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                               const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                               std::size_t steps, std::uint8_t* out_end) {
  States states(encoder);
  std::uint8_t* out = out_end;
  for (std::size_t step = steps; step-- > 0;) {
    const std::uint8_t* const units = unit_table + step * step_units;
    out = avx2::one_table(units)
              ? encode_step<true>(states, tables, units, symbols_in + step * lanes, out)
              : encode_step<false>(states, tables, units, symbols_in + step * lanes, out);
  }
  states.keep(encoder);
  return out;
}

}  // namespace kvstrata::codec::avx512
