// Lanes: 8 tokens in AVX2 registers, in the words that linear_kernels.inl is written in. Stateless
// functions.
#pragma once

#include "codec/avx2.h"

#define KV_LANES __attribute__((target("avx2,fma,bmi,bmi2,popcnt")))
#define KV_LANES_INLINE __attribute__((target("avx2,fma,bmi,bmi2,popcnt"), always_inline)) inline

namespace kvstrata::codec::avx2 {

/// For each mask of 8 lanes, the words that its set lanes take.
constexpr std::array<std::array<std::int32_t, 8>, 256> make_spreads() {
  std::array<std::array<std::int32_t, 8>, 256> spreads{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::int32_t word = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      spreads[mask][lane] = word;
      word += static_cast<std::int32_t>(mask >> lane & 1);
    }
  }
  return spreads;
}
inline constexpr std::array<std::array<std::int32_t, 8>, 256> spreads = make_spreads();

struct Lanes {
  using Float = __m256;
  using Int = __m256i;
  /// All bits of a lane, or none.
  struct Mask {
    __m256i lanes;
  };
  static constexpr std::size_t size = 8;

  KV_LANES_INLINE static Float load(const float* at) { return _mm256_loadu_ps(at); }
  KV_LANES_INLINE static Int load(const std::int32_t* at) { return avx2::load(at); }
  KV_LANES_INLINE static Int load(const std::uint32_t* at) { return avx2::load(at); }
  KV_LANES_INLINE static void store(float* at, Float value) { _mm256_storeu_ps(at, value); }
  KV_LANES_INLINE static void store(std::int32_t* at, Int value) { avx2::store(at, value); }
  KV_LANES_INLINE static void store(std::uint32_t* at, Int value) { avx2::store(at, value); }
  KV_LANES_INLINE static Float all(float value) { return _mm256_set1_ps(value); }
  KV_LANES_INLINE static Int all(std::int32_t value) { return _mm256_set1_epi32(value); }

  KV_LANES_INLINE static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  KV_LANES_INLINE static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  KV_LANES_INLINE static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  KV_LANES_INLINE static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
  KV_LANES_INLINE static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
  KV_LANES_INLINE static Float as_float(Int bits) { return _mm256_castsi256_ps(bits); }
  KV_LANES_INLINE static Int as_bits(Float value) { return _mm256_castps_si256(value); }
  KV_LANES_INLINE static Float to_float(Int value) { return _mm256_cvtepi32_ps(value); }
  KV_LANES_INLINE static Int to_int(Float value) { return _mm256_cvtps_epi32(value); }

  KV_LANES_INLINE static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  KV_LANES_INLINE static Int sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  KV_LANES_INLINE static Int mul(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
  KV_LANES_INLINE static Int min(Int a, Int b) { return _mm256_min_epi32(a, b); }
  KV_LANES_INLINE static Int max(Int a, Int b) { return _mm256_max_epi32(a, b); }
  KV_LANES_INLINE static Int bit_and(Int a, Int b) { return _mm256_and_si256(a, b); }
  KV_LANES_INLINE static Int bit_or(Int a, Int b) { return _mm256_or_si256(a, b); }
  KV_LANES_INLINE static Int bit_xor(Int a, Int b) { return _mm256_xor_si256(a, b); }
  template <int bits>
  KV_LANES_INLINE static Int left(Int value) {
    return _mm256_slli_epi32(value, bits);
  }
  template <int bits>
  KV_LANES_INLINE static Int right(Int value) {
    return _mm256_srli_epi32(value, bits);
  }
  template <int bits>
  KV_LANES_INLINE static Int right_signed(Int value) {
    return _mm256_srai_epi32(value, bits);
  }
  /// By as many bits as the lane says; 0 from 32 on, and below 0.
  KV_LANES_INLINE static Int left(Int value, Int bits) { return _mm256_sllv_epi32(value, bits); }
  KV_LANES_INLINE static Int right(Int value, Int bits) { return _mm256_srlv_epi32(value, bits); }
  /// floor(log2(value)) of 1..2^24 - 1, which a float holds exactly; of 0 something below 0.
  KV_LANES_INLINE static Int log2(Int value) {
    return sub(right<23>(as_bits(to_float(value))), all(127));
  }

  KV_LANES_INLINE static Mask equal(Int a, Int b) { return {_mm256_cmpeq_epi32(a, b)}; }
  KV_LANES_INLINE static Mask less(Int a, Int b) { return {_mm256_cmpgt_epi32(b, a)}; }
  KV_LANES_INLINE static Mask less(Float a, Float b) {
    return {as_bits(_mm256_cmp_ps(a, b, _CMP_LT_OQ))};
  }
  KV_LANES_INLINE static Mask both(Mask a, Mask b) { return {bit_and(a.lanes, b.lanes)}; }
  KV_LANES_INLINE static Mask either(Mask a, Mask b) { return {bit_or(a.lanes, b.lanes)}; }
  /// a where the mask is not set.
  KV_LANES_INLINE static Mask without(Mask a, Mask mask) {
    return {_mm256_andnot_si256(mask.lanes, a.lanes)};
  }
  KV_LANES_INLINE static unsigned bits_of(Mask mask) {
    return static_cast<unsigned>(_mm256_movemask_ps(as_float(mask.lanes)));
  }
  KV_LANES_INLINE static Int choose(Mask mask, Int yes, Int no) {
    return _mm256_blendv_epi8(no, yes, mask.lanes);
  }
  KV_LANES_INLINE static Int only(Mask mask, Int value) { return bit_and(mask.lanes, value); }
  KV_LANES_INLINE static Float only(Mask mask, Float value) {
    return _mm256_and_ps(as_float(mask.lanes), value);
  }
  /// The first `count` lanes; all if there are fewer.
  KV_LANES_INLINE static Mask first(std::size_t count) {
    return less(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                all(static_cast<std::int32_t>(count < 8 ? count : 8)));
  }

  /// table[index] of each lane.
  KV_LANES_INLINE static Int look_up(const void* table, Int index) {
    return _mm256_i32gather_epi32(static_cast<const int*>(table), index, 4);
  }
  /// 32 bits from as many bytes on as the lane says.
  KV_LANES_INLINE static Int load_at(const std::uint8_t* bytes, Int offset) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(bytes), offset, 1);
  }
  /// The words at `next` in the lanes of the mask, in their order; 0 in the others.
  KV_LANES_INLINE static Int spread(const std::uint16_t* next, Mask mask) {
    const __m256i words = _mm256_cvtepu16_epi32(load_half(next));
    return only(mask, _mm256_permutevar8x32_epi32(words, avx2::load(&spreads[bits_of(mask)])));
  }
  /// Of each lane the sum of those before it, and of all.
  KV_LANES_INLINE static Int sums_before(Int value, std::int32_t& total) {
    __m256i sum = add(value, _mm256_slli_si256(value, 4));
    sum = add(sum, _mm256_slli_si256(sum, 8));  // of each half
    const __m256i low_total = _mm256_permutevar8x32_epi32(sum, all(3));
    sum = add(sum, _mm256_blend_epi32(_mm256_setzero_si256(), low_total, 0xf0));
    total = _mm256_extract_epi32(sum, 7);
    return sub(sum, value);
  }

  // ---- sums of products of int8
  /// What a product wants of four inputs: their sizes, and their signs for the weights.
  struct Input {
    __m256i sizes, four;
  };
  KV_LANES_INLINE static Input input(const std::int32_t* packed) {
    const __m256i four = avx2::load(packed);
    return {_mm256_abs_epi8(four), four};
  }
  /// No pair of products is beyond 2 · 127 · 127, which an int16 holds.
  KV_LANES_INLINE static Int multiply(Int sum, const Input& input, Int weights) {
    const __m256i pairs = _mm256_maddubs_epi16(input.sizes, _mm256_sign_epi8(weights, input.four));
    return add(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  KV_LANES_INLINE static std::int32_t excess(const std::int8_t*, std::size_t) { return 0; }
};

}  // namespace kvstrata::codec::avx2
