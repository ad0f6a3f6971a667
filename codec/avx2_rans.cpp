// rANS with AVX2: 32 lanes a register, states as a plane of low and a plane of high bytes. There
// are no lookup tables but the 16-byte lines of DecodeTable and EncodeTable, kept in registers.
#include "codec/avx2_rans.h"

#include "codec/avx2.h"
#include "codec/decode_batches.h"

namespace kvstrata::codec::avx2 {

namespace {

/// Shuffles of 8 bytes by an 8-bit mask, `bias` added to the source numbers.
using Shuffles = std::array<std::array<std::uint8_t, 8>, 256>;

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

/// For each lane of `starved` (0xff or 0) the number of starved lanes before it in its half, and
/// 0x80 elsewhere: the shuffle that brings a half's next bytes to its lanes.
KV_AVX2_INLINE __m256i expand_shuffle(__m256i starved) {
  // Sums of -1, by doubling inside 64 bits; then the upper 64 add the lower ones' total.
  __m256i sum = _mm256_add_epi8(starved, _mm256_slli_epi64(starved, 8));
  sum = _mm256_add_epi8(sum, _mm256_slli_epi64(sum, 16));
  sum = _mm256_add_epi8(sum, _mm256_slli_epi64(sum, 32));
  const __m256i last_of_lower = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 7, 7, 7, 7, 7, 7, 7, 7));
  sum = _mm256_add_epi8(sum, _mm256_shuffle_epi8(sum, last_of_lower));
  return _mm256_or_si256(_mm256_sub_epi8(bytes(-1), sum),
                         _mm256_andnot_si256(starved, bytes(0x80)));
}

/// The states of all lanes while a kernel runs; `Coder` is RansDecoder or RansEncoder.
struct States {
  __m256i low[quarters], high[quarters];

  template <typename Coder>
  KV_AVX2_INLINE explicit States(const Coder& coder) {
    for (std::size_t q = 0; q < quarters; ++q) {
      low[q] = load(&coder.low[q * quarter_lanes]);
      high[q] = load(&coder.high[q * quarter_lanes]);
    }
  }
  template <typename Coder>
  KV_AVX2_INLINE void keep(Coder& coder) const {
    for (std::size_t q = 0; q < quarters; ++q) {
      store(&coder.low[q * quarter_lanes], low[q]);
      store(&coder.high[q * quarter_lanes], high[q]);
    }
  }
};

/// 32 lanes of one step; loads 16 bytes from each of two places in what it takes from `next`.
KV_AVX2_INLINE __m256i decode_quarter(const DecodeLines& lines, __m256i& low, __m256i& high,
                                      const std::uint8_t*& next) {
  const Advanced to = advance(lines, low, high);
  const __m256i starved = _mm256_cmpeq_epi8(to.high, _mm256_setzero_si256());
  const auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(starved));
  const __m256i stream = load_halves(next, next + bits_of(mask & 0xffff));
  next += bits_of(mask);
  const __m256i taken = _mm256_shuffle_epi8(stream, expand_shuffle(starved));
  // What is taken is 0 elsewhere, and the high byte is 0 where something is: no blends are needed,
  // which cost three operations each on some CPUs.
  low = _mm256_or_si256(_mm256_andnot_si256(starved, to.low), taken);
  high = _mm256_or_si256(to.high, _mm256_and_si256(to.low, starved));
  return to.symbol;
}

template <bool same>
KV_AVX2_INLINE const std::uint8_t* decode_step(States& states, const DecodeTable* tables,
                                               const std::uint8_t* unit_table,
                                               const std::uint8_t* next,
                                               std::uint8_t* symbols_out) {
  DecodeLines lines = DecodeLines::of<same>(tables, unit_table);
#pragma GCC unroll 4
  for (std::size_t q = 0; q < quarters; ++q) {
    if (!same && q != 0) lines = DecodeLines::of<same>(tables, unit_table + 2 * q);
    store(symbols_out + q * quarter_lanes,
          decode_quarter(lines, states.low[q], states.high[q], next));
  }
  return next;
}

/// One line (a member array) of the tables of a quarter. `same`: all units of the step share one.
template <bool same, typename Table>
class Lines {
 public:
  using Line = std::array<std::uint8_t, symbols>;

  KV_AVX2_INLINE Lines(const Table* tables, const std::uint8_t* unit_table)
      : low_(tables[unit_table[0]]), high_(tables[unit_table[same ? 0 : 1]]) {}

  KV_AVX2_INLINE __m256i load(Line Table::* line) const {
    return load_halves<same>(&(low_.*line), &(high_.*line));
  }

 private:
  const Table& low_;
  const Table& high_;
};

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

const char* decode(DType dtype, bool sign_coded, StepInput& input, const DecodeTable* tables,
                   const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* scalars) {
  return decode_in_batches(avx2_kernels, dtype, sign_coded, input, tables, unit_table, steps,
                           scalars);
}

KV_AVX2 bool decode_symbols(RansDecoder& decoder, const DecodeTable* tables,
                            const std::uint8_t* unit_table, std::size_t steps,
                            std::uint8_t* symbols_out) {
  constexpr std::ptrdiff_t step_reads = lanes + 16;
  States states(decoder);
  const std::uint8_t* next = decoder.next;
  const std::uint8_t* const readable_end = decoder.readable_end;
  std::size_t step = 0;
  for (; step < steps && readable_end - next >= step_reads; ++step) {
    const std::uint8_t* const units = unit_table + step * step_units;
    std::uint8_t* const out = symbols_out + step * lanes;
    next = one_table(units) ? decode_step<true>(states, tables, units, next, out)
                            : decode_step<false>(states, tables, units, next, out);
  }
  states.keep(decoder);
  if (next > decoder.end) return false;
  decoder.next = next;
  return scalar_kernels.decode_symbols(decoder, tables, unit_table + step * step_units,
                                       steps - step, symbols_out + step * lanes);
}

KV_AVX2 std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                             const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                             std::size_t steps, std::uint8_t* out_end) {
  States states(encoder);
  std::uint8_t* out = out_end;
  for (std::size_t step = steps; step-- > 0;) {
    const std::uint8_t* const units = unit_table + step * step_units;
    out = one_table(units)
              ? encode_step<true>(states, tables, units, symbols_in + step * lanes, out)
              : encode_step<false>(states, tables, units, symbols_in + step * lanes, out);
  }
  states.keep(encoder);
  return out;
}

}  // namespace kvstrata::codec::avx2
