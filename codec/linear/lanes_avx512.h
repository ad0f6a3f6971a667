// Lanes: 16 tokens in AVX-512 registers, in the words that linear_kernels.inl is written in.
// Stateless functions.
#pragma once

#include "codec/avx512.h"

#define KV_LANES                                                          \
  __attribute__((                                                         \
      target("avx512f,avx512bw,avx512vl,avx512cd,avx512vbmi,avx512vbmi2," \
             "avx512vnni,fma,bmi,bmi2,popcnt")))
#define KV_LANES_INLINE                                                              \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512cd,avx512vbmi,avx512vbmi2," \
                        "avx512vnni,fma,bmi,bmi2,popcnt"),                           \
                 always_inline)) inline

namespace kvstrata::codec::avx512 {

struct Lanes {
  using Float = __m512;
  using Int = __m512i;
  using Mask = __mmask16;
  static constexpr std::size_t size = 16;

  KV_LANES_INLINE static Float load(const float* at) { return _mm512_loadu_ps(at); }
  KV_LANES_INLINE static Int load(const std::int32_t* at) { return _mm512_loadu_si512(at); }
  KV_LANES_INLINE static Int load(const std::uint32_t* at) { return _mm512_loadu_si512(at); }
  KV_LANES_INLINE static void store(float* at, Float value) { _mm512_storeu_ps(at, value); }
  KV_LANES_INLINE static void store(std::int32_t* at, Int value) { _mm512_storeu_si512(at, value); }
  KV_LANES_INLINE static void store(std::uint32_t* at, Int value) {
    _mm512_storeu_si512(at, value);
  }
  KV_LANES_INLINE static Float all(float value) { return _mm512_set1_ps(value); }
  KV_LANES_INLINE static Int all(std::int32_t value) { return _mm512_set1_epi32(value); }
  KV_LANES_INLINE static Int all_bytes(int value) {
    return _mm512_set1_epi8(static_cast<char>(value));
  }

  KV_LANES_INLINE static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  KV_LANES_INLINE static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  KV_LANES_INLINE static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  KV_LANES_INLINE static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
  KV_LANES_INLINE static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
  KV_LANES_INLINE static Float as_float(Int bits) { return _mm512_castsi512_ps(bits); }
  KV_LANES_INLINE static Int as_bits(Float value) { return _mm512_castps_si512(value); }
  KV_LANES_INLINE static Float to_float(Int value) { return _mm512_cvtepi32_ps(value); }
  KV_LANES_INLINE static Int to_int(Float value) { return _mm512_cvtps_epi32(value); }

  KV_LANES_INLINE static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  KV_LANES_INLINE static Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  KV_LANES_INLINE static Int mul(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  KV_LANES_INLINE static Int min(Int a, Int b) { return _mm512_min_epi32(a, b); }
  KV_LANES_INLINE static Int max(Int a, Int b) { return _mm512_max_epi32(a, b); }
  KV_LANES_INLINE static Int bit_and(Int a, Int b) { return _mm512_and_si512(a, b); }
  KV_LANES_INLINE static Int bit_or(Int a, Int b) { return _mm512_or_si512(a, b); }
  KV_LANES_INLINE static Int bit_xor(Int a, Int b) { return _mm512_xor_si512(a, b); }
  template <int bits>
  KV_LANES_INLINE static Int left(Int value) {
    return _mm512_slli_epi32(value, bits);
  }
  template <int bits>
  KV_LANES_INLINE static Int right(Int value) {
    return _mm512_srli_epi32(value, bits);
  }
  template <int bits>
  KV_LANES_INLINE static Int right_signed(Int value) {
    return _mm512_srai_epi32(value, bits);
  }
  /// By as many bits as the lane says; 0 from 32 on, and below 0.
  KV_LANES_INLINE static Int left(Int value, Int bits) { return _mm512_sllv_epi32(value, bits); }
  KV_LANES_INLINE static Int right(Int value, Int bits) { return _mm512_srlv_epi32(value, bits); }
  /// floor(log2(value)); -1 of 0.
  KV_LANES_INLINE static Int log2(Int value) {
    return _mm512_sub_epi32(_mm512_set1_epi32(31), _mm512_lzcnt_epi32(value));
  }

  KV_LANES_INLINE static Mask equal(Int a, Int b) { return _mm512_cmpeq_epi32_mask(a, b); }
  KV_LANES_INLINE static Mask less(Int a, Int b) { return _mm512_cmplt_epi32_mask(a, b); }
  KV_LANES_INLINE static Mask less(Float a, Float b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
  }
  KV_LANES_INLINE static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  KV_LANES_INLINE static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
  /// a where the mask is not set.
  KV_LANES_INLINE static Mask without(Mask a, Mask mask) { return static_cast<Mask>(a & ~mask); }
  KV_LANES_INLINE static unsigned bits_of(Mask mask) { return mask; }
  KV_LANES_INLINE static Int choose(Mask mask, Int yes, Int no) {
    return _mm512_mask_mov_epi32(no, mask, yes);
  }
  KV_LANES_INLINE static Int only(Mask mask, Int value) {
    return _mm512_maskz_mov_epi32(mask, value);
  }
  KV_LANES_INLINE static Float only(Mask mask, Float value) {
    return _mm512_maskz_mov_ps(mask, value);
  }
  /// The first `count` lanes; all if there are fewer.
  KV_LANES_INLINE static Mask first(std::size_t count) {
    return static_cast<Mask>(_bzhi_u32(0xffff, static_cast<unsigned>(count < 16 ? count : 16)));
  }

  /// table[index] of each lane.
  KV_LANES_INLINE static Int look_up(const void* table, Int index) {
    return _mm512_i32gather_epi32(index, table, 4);
  }
  /// 32 bits from as many bytes on as the lane says.
  KV_LANES_INLINE static Int load_at(const std::uint8_t* bytes, Int offset) {
    return _mm512_i32gather_epi32(offset, bytes, 1);
  }
  /// The words at `next` in the lanes of the mask, in their order; 0 in the others.
  KV_LANES_INLINE static Int spread(const std::uint16_t* next, Mask mask) {
    const __m512i words =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
    return _mm512_maskz_expand_epi32(mask, words);
  }
  /// Of each lane the sum of those before it, and of all.
  KV_LANES_INLINE static Int sums_before(Int value, std::int32_t& total) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i sum = _mm512_add_epi32(value, _mm512_alignr_epi32(value, zero, 15));
    sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 14));
    sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 12));
    sum = _mm512_add_epi32(sum, _mm512_alignr_epi32(sum, zero, 8));
    total = _mm_cvtsi128_si32(_mm_shuffle_epi32(_mm512_extracti32x4_epi32(sum, 3), 0xff));
    return _mm512_sub_epi32(sum, value);
  }

  // ---- sums of products of int8
  /// What a product wants of four inputs: they come unsigned, 128 too large.
  struct Input {
    __m512i four;
  };
  KV_LANES_INLINE static Input input(const std::int32_t* packed) {
    return {_mm512_xor_si512(_mm512_loadu_si512(packed), all_bytes(-0x80))};
  }
  KV_LANES_INLINE static Int multiply(Int sum, const Input& input, Int weights) {
    return _mm512_dpbusd_epi32(sum, input.four, weights);
  }
  /// What the sum over `count` weights has too much.
  KV_LANES static std::int32_t excess(const std::int8_t* weights, std::size_t count) {
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t i = 0; i < count; i += 64) {
      const std::uint64_t mask =
          _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(count - i < 64 ? count - i : 64));
      sum = _mm512_dpbusd_epi32(sum, all_bytes(1), _mm512_maskz_loadu_epi8(mask, weights + i));
    }
    return 128 * _mm512_reduce_add_epi32(sum);
  }
};

}  // namespace kvstrata::codec::avx512
