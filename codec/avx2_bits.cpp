// Joining and cutting scalars with AVX2: 32 lanes as registers of single bytes, one per byte of the
// scalar, interleaved at the end.
#include <bit>
#include <cstring>

#include "codec/avx2.h"
#include "codec/raw_bits.h"
#include "codec/scalar_format.h"

namespace kvstrata::codec::avx2 {

namespace {

/// Bits beyond whole bytes of quarter `q` out of their planes of 4, 2 and 1.
template <std::uint32_t width>
KV_AVX2_INLINE __m256i unpack_bits(const std::uint8_t* planes, std::size_t q) {
  __m256i value = _mm256_setzero_si256();
  if constexpr ((width & 4) != 0) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(q / 2 * 4));
    value =
        _mm256_and_si256(_mm256_srl_epi16(load(planes + q % 2 * quarter_lanes), shift), bytes(15));
    planes += 64;
  }
  if constexpr ((width & 2) != 0) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(q * 2));
    const __m256i two = _mm256_and_si256(_mm256_srl_epi16(load(planes), shift), bytes(3));
    value = _mm256_or_si256(value, _mm256_slli_epi16(two, width & 4));
    planes += 32;
  }
  if constexpr ((width & 1) != 0) {  // the upper half's bit is one further up
    const __m128i line = load_half(planes);
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(line, 1), line);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(q * 2));
    const __m256i one = _mm256_and_si256(_mm256_srl_epi16(both, shift), bytes(1));
    value = _mm256_or_si256(value, _mm256_slli_epi16(one, width & 6));
  }
  return value;
}

/// The reverse, all quarters of a step at once.
template <std::uint32_t width>
KV_AVX2_INLINE void pack_bits(const __m256i* values, std::uint8_t* planes) {
  if constexpr ((width & 4) != 0) {
    for (std::size_t i = 0; i < 2; ++i) {
      const __m256i low = _mm256_and_si256(values[i], bytes(15));
      store(planes + i * quarter_lanes, _mm256_or_si256(low, shift_left<4>(values[i + 2])));
    }
    planes += 64;
  }
  if constexpr ((width & 2) != 0) {
    __m256i line = _mm256_setzero_si256();
    for (int q = 0; q < 4; ++q) {
      const __m256i two = _mm256_and_si256(_mm256_srli_epi16(values[q], width & 4), bytes(3));
      line = _mm256_or_si256(line, _mm256_slli_epi16(two, 2 * q));
    }
    store(planes, line);
    planes += 32;
  }
  if constexpr ((width & 1) != 0) {
    __m256i line = _mm256_setzero_si256();
    for (int q = 0; q < 4; ++q) {
      const __m256i one = _mm256_and_si256(_mm256_srli_epi16(values[q], width & 6), bytes(1));
      line = _mm256_or_si256(line, _mm256_slli_epi16(one, 2 * q));
    }
    const __m128i upper = _mm_slli_epi16(_mm256_extracti128_si256(line, 1), 1);
    store_half(planes, _mm_or_si128(_mm256_castsi256_si128(line), upper));
  }
}

/// Stores 32 scalars given as their bytes, lowest first.
template <std::size_t scalar_bytes>
KV_AVX2_INLINE void store_scalars(const __m256i* parts, std::uint8_t* out) {
  if constexpr (scalar_bytes == 1) {
    store(out, parts[0]);
  } else if constexpr (scalar_bytes == 2) {
    const __m256i low = _mm256_unpacklo_epi8(parts[0], parts[1]);
    const __m256i high = _mm256_unpackhi_epi8(parts[0], parts[1]);
    store(out, _mm256_permute2x128_si256(low, high, 0x20));
    store(out + 32, _mm256_permute2x128_si256(low, high, 0x31));
  } else {
    const __m256i low_01 = _mm256_unpacklo_epi8(parts[0], parts[1]);
    const __m256i high_01 = _mm256_unpackhi_epi8(parts[0], parts[1]);
    const __m256i low_23 = _mm256_unpacklo_epi8(parts[2], parts[3]);
    const __m256i high_23 = _mm256_unpackhi_epi8(parts[2], parts[3]);
    const __m256i a = _mm256_unpacklo_epi16(low_01, low_23);
    const __m256i b = _mm256_unpackhi_epi16(low_01, low_23);
    const __m256i c = _mm256_unpacklo_epi16(high_01, high_23);
    const __m256i d = _mm256_unpackhi_epi16(high_01, high_23);
    store(out, _mm256_permute2x128_si256(a, b, 0x20));
    store(out + 32, _mm256_permute2x128_si256(c, d, 0x20));
    store(out + 64, _mm256_permute2x128_si256(a, b, 0x31));
    store(out + 96, _mm256_permute2x128_si256(c, d, 0x31));
  }
}

/// Even and odd bytes of 64, each in order.
KV_AVX2_INLINE void separate(__m256i first, __m256i second, __m256i& even, __m256i& odd) {
  even = _mm256_permute4x64_epi64(_mm256_packus_epi16(even_bytes(first), even_bytes(second)), 0xd8);
  odd = _mm256_permute4x64_epi64(_mm256_packus_epi16(odd_bytes(first), odd_bytes(second)), 0xd8);
}

template <std::size_t scalar_bytes>
KV_AVX2_INLINE void load_scalars(const std::uint8_t* in, __m256i* parts) {
  if constexpr (scalar_bytes == 1) {
    parts[0] = load(in);
  } else if constexpr (scalar_bytes == 2) {
    separate(load(in), load(in + 32), parts[0], parts[1]);
  } else {
    __m256i even_a, odd_a, even_b, odd_b;
    separate(load(in), load(in + 32), even_a, odd_a);  // bytes 0 and 2, bytes 1 and 3
    separate(load(in + 64), load(in + 96), even_b, odd_b);
    separate(even_a, even_b, parts[0], parts[2]);
    separate(odd_a, odd_b, parts[1], parts[3]);
  }
}

/// Where the mantissa ends in the scalar: `top_bits` of it share a byte with the key.
template <DType dtype>
struct Cut {
  static constexpr ScalarFormat format = scalar_format(dtype);
  static constexpr std::uint32_t whole_bytes = format.mantissa_bits / 8;
  static constexpr std::uint32_t top_bits = format.mantissa_bits % 8;
  static constexpr bool key_crosses = top_bits + format.key_bits > 8;  ///< into the next byte
  static constexpr std::uint32_t key_shift = top_bits % 8;
};

/// The last one or two bytes of the scalars: mantissa's top, key, and sign as 0 or 0x80.
template <DType dtype>
KV_AVX2_INLINE void join_top(__m256i top, __m256i key, __m256i sign, __m256i* parts) {
  using C = Cut<dtype>;
  constexpr int shift = static_cast<int>(C::key_shift);
  const __m256i body = _mm256_or_si256(top, shift_left<shift>(key));
  if constexpr (C::key_crosses) {
    parts[0] = body;
    parts[1] = _mm256_or_si256(shift_right<8 - shift>(key), sign);
  } else {
    parts[0] = _mm256_or_si256(body, sign);
  }
}

template <DType dtype>
KV_AVX2_INLINE void cut_top(const __m256i* parts, __m256i& top, __m256i& key, __m256i& sign) {
  using C = Cut<dtype>;
  constexpr int shift = static_cast<int>(C::key_shift);
  constexpr int key_mask = (1 << C::format.key_bits) - 1;
  const __m256i last = parts[C::key_crosses ? 1 : 0];
  top = _mm256_and_si256(parts[0], bytes((1 << C::top_bits) - 1));
  key = shift_right<shift>(parts[0]);
  if constexpr (C::key_crosses) key = _mm256_or_si256(key, shift_left<8 - shift>(last));
  key = _mm256_and_si256(key, bytes(key_mask));
  sign = C::format.sign_bits == 0 ? _mm256_setzero_si256() : _mm256_and_si256(last, bytes(0x80));
}

/// How the raw value of w bits lies in planes: whole bytes, then `rest` bits. The bits above the
/// mantissa's whole bytes are its top and, above that, a raw sign.
template <DType dtype, bool sign_coded>
struct RawCut {
  static constexpr ScalarFormat format = scalar_format(dtype);
  static constexpr std::uint32_t width = format.raw_width(sign_coded);
  static constexpr std::uint32_t whole_bytes = width / 8;
  static constexpr std::uint32_t rest = width % 8;
  static constexpr bool raw_sign = !sign_coded && format.sign_bits != 0;
  static constexpr int sign_at = static_cast<int>(format.mantissa_bits % 8);  ///< in its byte
};

/// Puts escaped keys in place of those of the escape symbols. False if there are too few.
KV_AVX2 bool take_escapes(std::uint32_t escaped, Escapes& escapes, __m256i& key) {
  if (escapes.end - escapes.next < std::popcount(escaped)) return false;
  alignas(32) std::uint8_t keys[quarter_lanes];
  store(keys, key);
  for (; escaped != 0; escaped &= escaped - 1) keys[std::countr_zero(escaped)] = *escapes.next++;
  key = load(keys);
  return true;
}

template <DType dtype, bool sign_coded>
KV_AVX2_INLINE bool merge_step(const std::uint8_t* symbols_in, const DecodeTable* tables,
                               const std::uint8_t* unit_table, const std::uint8_t* raw,
                               Escapes& escapes, std::uint8_t* scalars) {
  using R = RawCut<dtype, sign_coded>;
  constexpr std::size_t scalar_bytes = R::format.bytes;
  constexpr std::size_t low_bytes = R::format.mantissa_bits / 8;
  for (std::size_t q = 0; q < quarters; ++q) {
    const std::size_t lane = q * quarter_lanes;
    const DecodeTable& low = tables[unit_table[2 * q]];
    const DecodeTable& high = tables[unit_table[2 * q + 1]];
    const __m256i symbol = load(symbols_in + lane);
    __m256i key = _mm256_shuffle_epi8(load_halves(low.key.data(), high.key.data()), symbol);
    const auto escaped = static_cast<std::uint32_t>(
        _mm256_movemask_epi8(_mm256_cmpgt_epi8(symbol, bytes(first_escape(sign_coded) - 1))));
    if (escaped != 0 && !take_escapes(escaped, escapes, key)) return false;
    __m256i parts[4];
    for (std::size_t i = 0; i < low_bytes; ++i) parts[i] = load(raw + i * lanes + lane);
    __m256i top;
    if constexpr (R::rest == 0) {
      top = load(raw + low_bytes * lanes + lane);
    } else {
      top = unpack_bits<R::rest>(raw + R::whole_bytes * lanes, q);
    }
    __m256i sign = _mm256_setzero_si256();
    if constexpr (R::raw_sign) {
      sign = shift_left<7 - R::sign_at>(_mm256_and_si256(top, bytes(1 << R::sign_at)));
      top = _mm256_and_si256(top, bytes((1 << R::sign_at) - 1));
    } else if constexpr (sign_coded) {
      const __m256i signs =
          _mm256_shuffle_epi8(load_halves(low.sign.data(), high.sign.data()), symbol);
      sign = shift_left<7>(signs);
    }
    join_top<dtype>(top, key, sign, parts + low_bytes);
    store_scalars<scalar_bytes>(parts, scalars + lane * scalar_bytes);
  }
  return true;
}

template <DType dtype, bool sign_coded>
KV_AVX2 const std::uint8_t* merge_steps(const std::uint8_t* symbols_in, const DecodeTable* tables,
                                        const std::uint8_t* unit_table, const std::uint8_t* raw,
                                        std::size_t steps, Escapes escapes, std::uint8_t* scalars) {
  using R = RawCut<dtype, sign_coded>;
  for (std::size_t step = 0; step < steps; ++step) {
    const bool ok = merge_step<dtype, sign_coded>(
        symbols_in + step * lanes, tables, unit_table + step * step_units,
        raw + step * raw_step_bytes(R::width), escapes, scalars + step * lanes * R::format.bytes);
    if (!ok) return nullptr;
  }
  return escapes.next;
}

/// Symbols of 32 lanes, whose units have tables `low` and `high`.
template <bool sign_coded>
KV_AVX2_INLINE __m256i find_symbols(const EncodeTable& low, const EncodeTable& high, __m256i key,
                                    __m256i sign) {
  // Inside the window the index is 0x70..0x7f; beyond it saturates, which shuffles in a 0.
  const __m256i base = load_halves(low.window_base.data(), high.window_base.data());
  const __m256i index = _mm256_adds_epu8(_mm256_sub_epi8(key, base), bytes(0x70));
  const __m256i plus =
      _mm256_shuffle_epi8(load_halves(low.window[0].data(), high.window[0].data()), index);
  if constexpr (!sign_coded) return _mm256_xor_si256(plus, bytes(15));
  const __m256i minus =
      _mm256_shuffle_epi8(load_halves(low.window[1].data(), high.window[1].data()), index);
  return _mm256_xor_si256(_mm256_blendv_epi8(plus, minus, sign),
                          _mm256_or_si256(bytes(14), shift_right<7>(sign)));
}

/// For tables whose keys lie too far apart for a window.
template <bool sign_coded>
KV_AVX2 __m256i look_up_symbols(const EncodeTable& low, const EncodeTable& high, __m256i key,
                                __m256i sign) {
  alignas(32) std::uint8_t keys[quarter_lanes];
  alignas(32) std::uint8_t found[quarter_lanes];
  store(keys, key);
  const auto minus = static_cast<std::uint32_t>(_mm256_movemask_epi8(sign));
  for (std::size_t lane = 0; lane < quarter_lanes; ++lane) {
    const EncodeTable& table = lane < unit_lanes ? low : high;
    found[lane] = table.symbol[minus >> lane & 1][keys[lane]];
  }
  return load(found);
}

template <bool sign_coded>
KV_AVX2_INLINE std::uint8_t* append_escapes(__m256i symbol, __m256i key, std::uint8_t* escapes) {
  const __m256i escaped = _mm256_cmpgt_epi8(symbol, bytes(first_escape(sign_coded) - 1));
  auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(escaped));
  if (mask == 0) [[likely]]
    return escapes;
  alignas(32) std::uint8_t keys[quarter_lanes];
  store(keys, key);
  for (; mask != 0; mask &= mask - 1) *escapes++ = keys[std::countr_zero(mask)];
  return escapes;
}

template <DType dtype, bool sign_coded>
KV_AVX2_INLINE std::uint8_t* split_step(const std::uint8_t* scalars, const EncodeTable* tables,
                                        const std::uint8_t* unit_table, std::uint8_t* symbols_out,
                                        std::uint8_t* raw, std::uint8_t* escapes) {
  using R = RawCut<dtype, sign_coded>;
  constexpr std::size_t scalar_bytes = R::format.bytes;
  constexpr std::size_t low_bytes = R::format.mantissa_bits / 8;
  __m256i tops[quarters];
  for (std::size_t q = 0; q < quarters; ++q) {
    const std::size_t lane = q * quarter_lanes;
    __m256i parts[4], key, sign;
    load_scalars<scalar_bytes>(scalars + lane * scalar_bytes, parts);
    for (std::size_t i = 0; i < low_bytes; ++i) store(raw + i * lanes + lane, parts[i]);
    cut_top<dtype>(parts + low_bytes, tops[q], key, sign);
    const EncodeTable& low = tables[unit_table[2 * q]];
    const EncodeTable& high = tables[unit_table[2 * q + 1]];
    const __m256i symbol = low.windowed && high.windowed
                               ? find_symbols<sign_coded>(low, high, key, sign)
                               : look_up_symbols<sign_coded>(low, high, key, sign);
    store(symbols_out + lane, symbol);
    escapes = append_escapes<sign_coded>(symbol, key, escapes);
    if constexpr (R::raw_sign) {
      tops[q] = _mm256_or_si256(tops[q], shift_right<7 - R::sign_at>(sign));
    }
    if constexpr (R::rest == 0) store(raw + low_bytes * lanes + lane, tops[q]);
  }
  if constexpr (R::rest != 0) pack_bits<R::rest>(tops, raw + R::whole_bytes * lanes);
  return escapes;
}

template <DType dtype, bool sign_coded>
KV_AVX2 std::uint8_t* split_steps(const std::uint8_t* scalars, const EncodeTable* tables,
                                  const std::uint8_t* unit_table, std::size_t steps,
                                  std::uint8_t* symbols_out, std::uint8_t* raw,
                                  std::uint8_t* escapes) {
  using R = RawCut<dtype, sign_coded>;
  for (std::size_t step = 0; step < steps; ++step) {
    escapes = split_step<dtype, sign_coded>(
        scalars + step * lanes * R::format.bytes, tables, unit_table + step * step_units,
        symbols_out + step * lanes, raw + step * raw_step_bytes(R::width), escapes);
  }
  return escapes;
}

}  // namespace

const std::uint8_t* merge(DType dtype, bool sign_coded, const std::uint8_t* symbols_in,
                          const DecodeTable* tables, const std::uint8_t* unit_table,
                          const std::uint8_t* raw, std::size_t steps, const Escapes& escapes,
                          std::uint8_t* scalars) {
  return with_dtype(dtype, [&]<DType type>() {
    return sign_coded ? merge_steps<type, true>(symbols_in, tables, unit_table, raw, steps, escapes,
                                                scalars)
                      : merge_steps<type, false>(symbols_in, tables, unit_table, raw, steps,
                                                 escapes, scalars);
  });
}

std::uint8_t* split(DType dtype, bool sign_coded, const std::uint8_t* scalars,
                    const EncodeTable* tables, const std::uint8_t* unit_table, std::size_t steps,
                    std::uint8_t* symbols_out, std::uint8_t* raw, std::uint8_t* escapes) {
  return with_dtype(dtype, [&]<DType type>() {
    return sign_coded ? split_steps<type, true>(scalars, tables, unit_table, steps, symbols_out,
                                                raw, escapes)
                      : split_steps<type, false>(scalars, tables, unit_table, steps, symbols_out,
                                                 raw, escapes);
  });
}

}  // namespace kvstrata::codec::avx2
