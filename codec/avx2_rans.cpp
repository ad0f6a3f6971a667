// rANS with AVX2: 32 lanes a register, states as a plane of low and a plane of high bytes. There
// are no lookup tables but the 16-byte lines of DecodeTable and EncodeTable, kept in registers.
#include <bit>
#include <cstring>

#include "codec/avx2.h"

namespace kvstrata::codec::avx2 {

namespace {

/// Shuffles of 8 bytes by an 8-bit mask, `bias` added to the source numbers.
using Shuffles = std::array<std::array<std::uint8_t, 8>, 256>;

/// The next bytes of the stream go to the lanes of the mask, in order; other lanes become 0.
constexpr Shuffles expanding(std::uint8_t bias) {
  Shuffles shuffles{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::uint8_t rank = bias;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      shuffles[mask][lane] = (mask >> lane & 1) != 0 ? rank++ : std::uint8_t{0x80};
    }
  }
  return shuffles;
}

/// The bytes of the mask's lanes move to the upper end, in order.
constexpr Shuffles compressing(std::uint8_t bias) {
  Shuffles shuffles{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::size_t at = 8;
    shuffles[mask].fill(0x80);
    for (std::size_t lane = 8; lane-- > 0;) {
      if ((mask >> lane & 1) != 0) shuffles[mask][--at] = static_cast<std::uint8_t>(lane + bias);
    }
  }
  return shuffles;
}

alignas(64) constexpr std::array<Shuffles, 2> expand_shuffles{expanding(0), expanding(8)};
alignas(64) constexpr std::array<Shuffles, 2> compress_shuffles{compressing(0), compressing(8)};

/// 16 bytes of two pieces of 8. (The _pi forms, unlike the _pd ones, promise no alignment.)
KV_AVX2_INLINE __m128i load_pieces(const void* low, const void* high) {
  const __m128i first = _mm_loadl_epi64(static_cast<const __m128i*>(low));
  return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(first), static_cast<const __m64*>(high)));
}
KV_AVX2_INLINE void store_high_piece(std::uint8_t* at, __m128i pieces) {
  _mm_storeh_pi(reinterpret_cast<__m64*>(at), _mm_castsi128_ps(pieces));
}

/// The shuffle of a whole register of lanes by a mask of 32 bits.
KV_AVX2_INLINE __m256i load_shuffle(const std::array<Shuffles, 2>& shuffles, std::uint32_t mask) {
  return _mm256_set_m128i(load_pieces(&shuffles[0][mask >> 16 & 0xff], &shuffles[1][mask >> 24]),
                          load_pieces(&shuffles[0][mask & 0xff], &shuffles[1][mask >> 8 & 0xff]));
}

KV_AVX2_INLINE std::size_t bits_of(std::uint32_t mask) {
  return static_cast<std::size_t>(_mm_popcnt_u32(mask));
}

/// One line (a member array) of the tables of a quarter. `same`: all units of the step share one.
template <bool same, typename Table>
class Lines {
 public:
  using Line = std::array<std::uint8_t, symbols>;

  KV_AVX2_INLINE Lines(const Table* tables, const std::uint8_t* unit_table)
      : low_(tables[unit_table[0]]), high_(tables[unit_table[same ? 0 : 1]]) {}

  KV_AVX2_INLINE __m256i load(Line Table::* line) const {
    if constexpr (same) return _mm256_broadcastsi128_si256(load_half(&(low_.*line)));
    return load_halves(&(low_.*line), &(high_.*line));
  }

 private:
  const Table& low_;
  const Table& high_;
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

/// 32 lanes of one step; reads up to 8 bytes beyond what it takes from `next`.
template <bool same, bool sign_coded>
KV_AVX2_INLINE __m256i decode_quarter(const Lines<same, DecodeTable>& lines, __m256i& low,
                                      __m256i& high, const std::uint8_t*& next, std::uint8_t* keys,
                                      std::uint8_t* signs) {
  const __m256i nodes = find_nodes(lines.load(&DecodeTable::tree), low);
  const __m256i frequency = _mm256_shuffle_epi8(lines.load(&DecodeTable::frequency), nodes);
  const __m256i cumulative = _mm256_shuffle_epi8(lines.load(&DecodeTable::cumulative), nodes);
  store(keys, _mm256_shuffle_epi8(lines.load(&DecodeTable::key), nodes));
  if constexpr (sign_coded) {
    store(signs, _mm256_shuffle_epi8(lines.load(&DecodeTable::sign), nodes));
  }
  const __m256i rest = _mm256_sub_epi8(low, cumulative);
  const __m256i even = _mm256_add_epi16(_mm256_mullo_epi16(even_bytes(frequency), even_bytes(high)),
                                        even_bytes(rest));
  const __m256i odd =
      _mm256_add_epi16(_mm256_mullo_epi16(odd_bytes(frequency), odd_bytes(high)), odd_bytes(rest));
  const __m256i new_low = join_low_bytes(even, odd);
  const __m256i new_high = join_high_bytes(even, odd);

  const __m256i starved = _mm256_cmpeq_epi8(new_high, _mm256_setzero_si256());
  const auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(starved));
  const std::uint8_t* const next_1 = next + bits_of(mask & 0xff);
  const std::uint8_t* const next_2 = next + bits_of(mask & 0xffff);
  const std::uint8_t* const next_3 = next + bits_of(mask & 0xffffff);
  const __m256i stream = _mm256_set_m128i(load_pieces(next_2, next_3), load_pieces(next, next_1));
  const __m256i taken = _mm256_shuffle_epi8(stream, load_shuffle(expand_shuffles, mask));
  next += bits_of(mask);
  low = _mm256_or_si256(_mm256_andnot_si256(starved, new_low), taken);
  high = _mm256_or_si256(new_high, _mm256_and_si256(starved, new_low));
  return nodes;
}

/// Puts escaped keys in place of those of the escape symbols. False if there are too few.
KV_AVX2 bool take_escapes(RansDecoder& decoder, const __m256i* escaped, std::uint8_t* keys) {
  for (std::size_t q = 0; q < quarters; ++q) {
    auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(escaped[q]));
    for (; mask != 0; mask &= mask - 1) {
      if (decoder.escape == decoder.escape_end) return false;
      keys[q * quarter_lanes + static_cast<std::size_t>(std::countr_zero(mask))] =
          *decoder.escape++;
    }
  }
  return true;
}

struct States {
  __m256i low[quarters], high[quarters];
};

template <bool same, bool sign_coded>
KV_AVX2_INLINE bool decode_step(RansDecoder& decoder, States& states, const DecodeTable* tables,
                                const std::uint8_t* unit_table, std::uint8_t* keys,
                                std::uint8_t* signs) {
  const __m256i last_named = bytes(15 + first_escape(sign_coded));
  __m256i escaped[quarters];
  __m256i any = _mm256_setzero_si256();
  const std::uint8_t* next = decoder.next;
#pragma GCC unroll 4
  for (std::size_t q = 0; q < quarters; ++q) {
    const Lines<same, DecodeTable> lines(tables, unit_table + 2 * q);
    const __m256i nodes = decode_quarter<same, sign_coded>(
        lines, states.low[q], states.high[q], next, keys + q * quarter_lanes,
        sign_coded ? signs + q * quarter_lanes : nullptr);
    escaped[q] = _mm256_cmpgt_epi8(nodes, last_named);
    any = _mm256_or_si256(any, escaped[q]);
  }
  decoder.next = next;
  if (_mm256_testz_si256(any, any) != 0) [[likely]]
    return true;
  return take_escapes(decoder, escaped, keys);
}

/// True if all 8 units of the step use one table.
inline bool one_table(const std::uint8_t* unit_table) {
  std::uint64_t units;
  std::memcpy(&units, unit_table, sizeof units);
  return units == unit_table[0] * 0x0101010101010101U;
}

/// Decodes whole steps while loads stay inside readable memory; returns how many, or -1.
template <bool sign_coded>
KV_AVX2 std::ptrdiff_t decode_steps(RansDecoder& decoder, const DecodeTable* tables,
                                    const std::uint8_t* unit_table, std::size_t steps,
                                    std::uint8_t* keys, std::uint8_t* signs) {
  constexpr std::ptrdiff_t step_reads = lanes + 8;
  States states;
  for (std::size_t q = 0; q < quarters; ++q) {
    states.low[q] = load(&decoder.low[q * quarter_lanes]);
    states.high[q] = load(&decoder.high[q * quarter_lanes]);
  }
  std::size_t step = 0;
  bool ok = true;
  for (; step < steps && decoder.readable_end - decoder.next >= step_reads; ++step) {
    const std::uint8_t* const units = unit_table + step * step_units;
    std::uint8_t* const step_keys = keys + step * lanes;
    std::uint8_t* const step_signs = sign_coded ? signs + step * lanes : nullptr;
    ok =
        one_table(units)
            ? decode_step<true, sign_coded>(decoder, states, tables, units, step_keys, step_signs)
            : decode_step<false, sign_coded>(decoder, states, tables, units, step_keys, step_signs);
    if (!ok) break;
  }
  for (std::size_t q = 0; q < quarters; ++q) {
    store(&decoder.low[q * quarter_lanes], states.low[q]);
    store(&decoder.high[q * quarter_lanes], states.high[q]);
  }
  return ok && decoder.next <= decoder.end ? static_cast<std::ptrdiff_t>(step) : -1;
}

/// 16-bit state / divisor by a reciprocal that gives at most 1 too little; the rest tells.
KV_AVX2_INLINE __m256i divide(__m256i state, __m256i divisor, __m256i reciprocal, __m256i& rest) {
  const __m256i quotient = _mm256_mulhi_epu16(state, reciprocal);
  rest = _mm256_sub_epi16(state, _mm256_mullo_epi16(quotient, divisor));
  const __m256i exact = _mm256_cmpgt_epi16(divisor, rest);
  rest = _mm256_sub_epi16(rest, _mm256_andnot_si256(exact, divisor));
  return _mm256_add_epi16(_mm256_add_epi16(quotient, _mm256_set1_epi16(1)), exact);
}

/// 32 lanes of one step, downwards from `out`; writes up to 8 bytes below what it returns.
template <bool same>
KV_AVX2_INLINE std::uint8_t* encode_quarter(const Lines<same, EncodeTable>& lines, __m256i symbol,
                                            __m256i& low, __m256i& high, std::uint8_t* out) {
  const __m256i frequency = _mm256_shuffle_epi8(lines.load(&EncodeTable::frequency), symbol);
  const __m256i full = _mm256_cmpeq_epi8(_mm256_max_epu8(high, frequency), high);
  const auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(full));
  const __m256i packed = _mm256_shuffle_epi8(low, load_shuffle(compress_shuffles, mask));
  const __m128i packed_low = _mm256_castsi256_si128(packed);
  const __m128i packed_high = _mm256_extracti128_si256(packed, 1);
  store_high_piece(out - 8, packed_high);
  out -= bits_of(mask >> 24);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out - 8), packed_high);
  out -= bits_of(mask >> 16 & 0xff);
  store_high_piece(out - 8, packed_low);
  out -= bits_of(mask >> 8 & 0xff);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out - 8), packed_low);
  out -= bits_of(mask & 0xff);
  low = _mm256_blendv_epi8(low, high, full);
  high = _mm256_andnot_si256(full, high);

  const __m256i reciprocal_low =
      _mm256_shuffle_epi8(lines.load(&EncodeTable::reciprocal_low), symbol);
  const __m256i reciprocal_high =
      _mm256_shuffle_epi8(lines.load(&EncodeTable::reciprocal_high), symbol);
  __m256i even_rest, odd_rest;
  const __m256i even = divide(join_low_bytes(low, high), even_bytes(frequency),
                              join_low_bytes(reciprocal_low, reciprocal_high), even_rest);
  const __m256i odd = divide(join_high_bytes(low, high), odd_bytes(frequency),
                             join_high_bytes(reciprocal_low, reciprocal_high), odd_rest);
  high = join_low_bytes(even, odd);
  low = _mm256_add_epi8(join_low_bytes(even_rest, odd_rest),
                        _mm256_shuffle_epi8(lines.load(&EncodeTable::cumulative), symbol));
  return out;
}

template <bool same>
KV_AVX2_INLINE std::uint8_t* encode_step(States& states, const EncodeTable* tables,
                                         const std::uint8_t* unit_table,
                                         const std::uint8_t* step_symbols, std::uint8_t* out) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < quarters; ++i) {
    const std::size_t q = quarters - 1 - i;
    const Lines<same, EncodeTable> lines(tables, unit_table + 2 * q);
    out = encode_quarter(lines, load(step_symbols + q * quarter_lanes), states.low[q],
                         states.high[q], out);
  }
  return out;
}

}  // namespace

KV_AVX2 bool decode(RansDecoder& decoder, const DecodeTable* tables, const std::uint8_t* unit_table,
                    std::size_t steps, bool sign_coded, std::uint8_t* keys, std::uint8_t* signs) {
  const std::ptrdiff_t done =
      sign_coded ? decode_steps<true>(decoder, tables, unit_table, steps, keys, signs)
                 : decode_steps<false>(decoder, tables, unit_table, steps, keys, nullptr);
  if (done < 0) return false;
  const auto first = static_cast<std::size_t>(done);
  return scalar_kernels.decode(decoder, tables, unit_table + first * step_units, steps - first,
                               sign_coded, keys + first * lanes,
                               sign_coded ? signs + first * lanes : nullptr);
}

KV_AVX2 std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                             const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                             std::size_t steps, std::uint8_t* out_end) {
  States states;
  for (std::size_t q = 0; q < quarters; ++q) {
    states.low[q] = load(&encoder.low[q * quarter_lanes]);
    states.high[q] = load(&encoder.high[q * quarter_lanes]);
  }
  std::uint8_t* out = out_end;
  for (std::size_t step = steps; step-- > 0;) {
    const std::uint8_t* const units = unit_table + step * step_units;
    out = one_table(units)
              ? encode_step<true>(states, tables, units, symbols_in + step * lanes, out)
              : encode_step<false>(states, tables, units, symbols_in + step * lanes, out);
  }
  for (std::size_t q = 0; q < quarters; ++q) {
    store(&encoder.low[q * quarter_lanes], states.low[q]);
    store(&encoder.high[q * quarter_lanes], states.high[q]);
  }
  return out;
}

}  // namespace kvstrata::codec::avx2
