// Decoding with AVX-512: 64 lanes a register. Where all lanes of a step share a table, as they do
// in blocks of 128 tokens and more, a symbol is looked up in all 256 slots at once (VBMI), and bf16
// scalars are put together while their symbols are still in registers.
#include "codec/avx2.h"
#include "codec/avx2_rans.h"
#include "codec/avx512.h"
#include "codec/decode_batches.h"

namespace kvstrata::codec::avx512 {

namespace {

/// Bytes of the stream a step may load, its last lanes from the end of what they need.
constexpr std::ptrdiff_t step_reads = lanes + half_lanes;

/// The table of a step. Its lines are loaded anew each step: that is cheaper than a branch on
/// whether they are other ones, which is guessed wrong.
struct StepTable {
  __m512i slots[4];  ///< symbols of slots 0.., 64.., 128.., 192..
  __m512i frequency, cumulative, low_byte, high_byte;

  KV_AVX512_INLINE explicit StepTable(const DecodeTable& table) {
    for (std::size_t i = 0; i < 4; ++i) slots[i] = load(&table.symbol_of_slot[64 * i]);
    frequency = _mm512_broadcast_i32x4(load_line(&table.frequency));
    cumulative = _mm512_broadcast_i32x4(load_line(&table.cumulative));
    low_byte = _mm512_broadcast_i32x4(load_line(&table.low_byte));
    high_byte = _mm512_broadcast_i32x4(load_line(&table.high_byte));
  }

  KV_AVX512_INLINE __m512i find_symbols(__m512i slot) const {
    const __m512i lower = _mm512_permutex2var_epi8(slots[0], slot, slots[1]);
    const __m512i upper = _mm512_permutex2var_epi8(slots[2], slot, slots[3]);
    return _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(slot), upper);
  }
};

/// Symbols by descending the trees of 4 units. Without compares into masks: they take long.
KV_AVX512_INLINE __m512i descend(__m512i tree, __m512i slot) {
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i below = _mm512_xor_si512(tree, _mm512_set1_epi8(-0x80));  // thresholds less 1
  __m512i node = one;
#pragma GCC unroll 4
  for (int level = 0; level < 4; ++level) {
    const __m512i above = _mm512_subs_epu8(slot, _mm512_shuffle_epi8(below, node));
    node = _mm512_add_epi8(_mm512_add_epi8(node, node), _mm512_min_epu8(above, one));
  }
  return _mm512_xor_si512(node, _mm512_set1_epi8(16));
}

/// Moves the states of 64 lanes past their symbols; those below 256 take a byte.
KV_AVX512_INLINE void advance(__m512i symbol, __m512i frequency, __m512i cumulative, __m512i& low,
                              __m512i& high, const std::uint8_t*& next) {
  const __m512i scale = _mm512_shuffle_epi8(frequency, symbol);
  const __m512i rest = _mm512_sub_epi8(low, _mm512_shuffle_epi8(cumulative, symbol));
  const __m512i even =
      _mm512_add_epi16(_mm512_mullo_epi16(even_bytes(scale), even_bytes(high)), even_bytes(rest));
  const __m512i odd =
      _mm512_add_epi16(_mm512_mullo_epi16(odd_bytes(scale), odd_bytes(high)), odd_bytes(rest));
  low = join_low_bytes(even, odd);
  high = join_high_bytes(even, odd);
  const __mmask64 starved = _mm512_testn_epi8_mask(high, high);
  __m512i stream = load(next);
  asm("" : "+v"(stream));  // apart from the expansion, whose form with memory is slow on Zen 4
  high = _mm512_mask_mov_epi8(high, starved, low);
  low = _mm512_mask_expand_epi8(low, starved, stream);
  next += bits_of(starved);
}

KV_AVX512_INLINE __m512i decode_half(const StepTable& table, __m512i& low, __m512i& high,
                                     const std::uint8_t*& next) {
  const __m512i symbol = table.find_symbols(low);
  advance(symbol, table.frequency, table.cumulative, low, high, next);
  return symbol;
}

/// A step whose units have tables of their own.
KV_AVX512_INLINE void decode_mixed_step(States& states, const DecodeTable* tables,
                                        const std::uint8_t* unit_table, const std::uint8_t*& next,
                                        std::uint8_t* symbols_out) {
#pragma GCC unroll 2
  for (std::size_t h = 0; h < halves; ++h) {
    const std::uint8_t* const units = unit_table + h * half_units;
    const __m512i symbol =
        descend(load_lines<false>(tables, units, &DecodeTable::tree), states.low[h]);
    advance(symbol, load_lines<false>(tables, units, &DecodeTable::frequency),
            load_lines<false>(tables, units, &DecodeTable::cumulative), states.low[h],
            states.high[h], next);
    store(symbols_out + h * half_lanes, symbol);
  }
}

/// The 7 mantissa bits of half `h` of a step with coded signs.
KV_AVX512_INLINE __m512i unpack_7_bits(const std::uint8_t* planes, std::size_t h) {
  const auto shift = static_cast<long long>(4 * h);
  const __m512i four = _mm512_srl_epi16(load(planes), _mm_cvtsi64_si128(shift));
  const __m512i two = _mm512_srlv_epi64(
      _mm512_broadcast_i64x4(avx2::load(planes + 64)),
      _mm512_add_epi64(_mm512_set1_epi64(shift), _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2)));
  const __m512i one = _mm512_srlv_epi64(
      _mm512_broadcast_i32x4(load_line(planes + 96)),
      _mm512_add_epi64(_mm512_set1_epi64(shift), _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3)));
  const __m512i upper =
      _mm512_or_si512(_mm512_slli_epi16(_mm512_and_si512(two, _mm512_set1_epi8(3)), 4),
                      _mm512_slli_epi16(_mm512_and_si512(one, _mm512_set1_epi8(1)), 6));
  return _mm512_or_si512(_mm512_and_si512(four, _mm512_set1_epi8(15)), upper);
}

/// Lanes that escaped, noted while a run is decoded and given their keys afterwards: few lanes do,
/// and a branch on them would be guessed wrong each time.
class EscapedLanes {
 public:
  static constexpr std::size_t steps_max = 64;

  /// bf16 scalars of a half whose keys are still 0 where `mask` is set.
  KV_AVX512_INLINE void note(__mmask64 mask, std::uint8_t* scalars) {
    list_[count_] = {mask, scalars};
    count_ += mask != 0 ? 1 : 0;
  }
  bool has_room() const { return count_ + halves < list_.size(); }

  /// False if there are too few keys.
  KV_AVX512 bool settle(Escapes& escapes) {
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::uint64_t lanes_left = list_[i].mask; lanes_left != 0;
           lanes_left &= lanes_left - 1) {
        if (escapes.next == escapes.end) return false;
        std::uint8_t* const at = list_[i].scalars + 2 * _tzcnt_u64(lanes_left);
        const unsigned key = *escapes.next++;
        at[0] |= static_cast<std::uint8_t>(key << 7);
        at[1] |= static_cast<std::uint8_t>(key >> 1);
      }
    }
    count_ = 0;
    return true;
  }

 private:
  struct Half {
    std::uint64_t mask;
    std::uint8_t* scalars;
  };
  std::array<Half, halves * steps_max + 1> list_;
  std::size_t count_ = 0;
};

KV_AVX512_INLINE void store_words(std::uint8_t* out, __m512i low, __m512i high) {
  const __m512i first = _mm512_unpacklo_epi8(low, high), second = _mm512_unpackhi_epi8(low, high);
  const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  store(out, _mm512_permutex2var_epi64(first, front, second));
  store(out + half_lanes, _mm512_permutex2var_epi64(first, back, second));
}

/// bf16 of half `h`: symbols, and raw bits of the whole step.
template <bool sign_coded>
KV_AVX512_INLINE void merge_half(const StepTable& table, __m512i symbol, const std::uint8_t* raw,
                                 std::size_t h, EscapedLanes& escaped, std::uint8_t* scalars) {
  std::uint8_t* const out = scalars + h * half_lanes * 2;
  __m512i low = _mm512_shuffle_epi8(table.low_byte, symbol);
  __m512i high = _mm512_shuffle_epi8(table.high_byte, symbol);
  if constexpr (sign_coded) {
    low = _mm512_or_si512(low, unpack_7_bits(raw, h));
  } else {
    constexpr int and_then_or = 0xea;
    const __m512i bits = load(raw + h * half_lanes);
    low = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi8(0x7f), low, and_then_or);
    high = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi8(-0x80), high, and_then_or);
  }
  store_words(out, low, high);
  escaped.note(_mm512_cmpgt_epu8_mask(symbol, _mm512_set1_epi8(first_escape(sign_coded) - 1)), out);
}

/// Where decoding of bf16 stands.
struct Position {
  const std::uint8_t *units, *next, *raw;
  std::uint8_t* scalars;
  std::size_t steps_left;

  template <bool sign_coded>
  KV_AVX512_INLINE void step_forward() {
    units += step_units;
    raw += raw_step_bytes(sign_coded ? 7 : 8);
    scalars += lanes * 2;
    --steps_left;
  }
};

/// A step whose lanes share a table.
template <bool sign_coded>
KV_AVX512_INLINE void decode_even_step(const DecodeTable& from, States& states,
                                       EscapedLanes& escaped, Position& at) {
  const StepTable table(from);
  const __m512i first = decode_half(table, states.low[0], states.high[0], at.next);
  const __m512i second = decode_half(table, states.low[1], states.high[1], at.next);
  merge_half<sign_coded>(table, first, at.raw, 0, escaped, at.scalars);
  merge_half<sign_coded>(table, second, at.raw, 1, escaped, at.scalars);
}

template <bool sign_coded>
KV_AVX512 const char* decode_bf16(StepInput& input, const DecodeTable* tables,
                                  const std::uint8_t* unit_table, std::size_t steps,
                                  std::uint8_t* scalars) {
  const std::uint8_t* const readable_end = input.rans.readable_end;
  States states(input.rans);
  EscapedLanes escaped;
  Position at{unit_table, input.rans.next, input.raw, scalars, steps};
  while (at.steps_left > 0 && readable_end - at.next >= step_reads) {
    if (avx2::one_table(at.units)) [[likely]] {
      decode_even_step<sign_coded>(tables[at.units[0]], states, escaped, at);
      at.step_forward<sign_coded>();
      if (!escaped.has_room() && !escaped.settle(input.escapes)) return escapes_too_few;
      continue;
    }
    if (!escaped.settle(input.escapes)) return escapes_too_few;
    alignas(64) std::array<std::uint8_t, lanes> step_symbols;
    decode_mixed_step(states, tables, at.units, at.next, step_symbols.data());
    input.escapes.next = avx2::merge(DType::bf16, sign_coded, step_symbols.data(), tables, at.units,
                                     at.raw, 1, input.escapes, at.scalars);
    if (input.escapes.next == nullptr) return escapes_too_few;
    at.step_forward<sign_coded>();
  }
  if (!escaped.settle(input.escapes)) return escapes_too_few;
  states.keep(input.rans);
  if (at.next > input.rans.end) return rans_too_short;
  input.rans.next = at.next;
  input.raw = at.raw;
  return avx2::decode(DType::bf16, sign_coded, input, tables, at.units, at.steps_left, at.scalars);
}

}  // namespace

const char* decode(DType dtype, bool sign_coded, StepInput& input, const DecodeTable* tables,
                   const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* scalars) {
  if (dtype != DType::bf16) {
    return decode_in_batches(avx512_kernels, dtype, sign_coded, input, tables, unit_table, steps,
                             scalars);
  }
  return sign_coded ? decode_bf16<true>(input, tables, unit_table, steps, scalars)
                    : decode_bf16<false>(input, tables, unit_table, steps, scalars);
}

KV_AVX512 bool decode_symbols(RansDecoder& decoder, const DecodeTable* tables,
                              const std::uint8_t* unit_table, std::size_t steps,
                              std::uint8_t* symbols_out) {
  States states(decoder);
  const std::uint8_t* next = decoder.next;
  const std::uint8_t* const readable_end = decoder.readable_end;
  std::size_t step = 0;
  while (step < steps && readable_end - next >= step_reads) {
    const std::uint8_t* const units = unit_table + step * step_units;
    if (!avx2::one_table(units)) {
      decode_mixed_step(states, tables, units, next, symbols_out + step * lanes);
      ++step;
      continue;
    }
    const StepTable table(tables[units[0]]);
    std::uint8_t* const out = symbols_out + step * lanes;
    store(out, decode_half(table, states.low[0], states.high[0], next));
    store(out + half_lanes, decode_half(table, states.low[1], states.high[1], next));
    ++step;
  }
  states.keep(decoder);
  if (next > decoder.end) return false;
  decoder.next = next;
  return scalar_kernels.decode_symbols(decoder, tables, unit_table + step * step_units,
                                       steps - step, symbols_out + step * lanes);
}

}  // namespace kvstrata::codec::avx512
