// Eight rows of weights in a register, two registers a tile; four tokens share each load of them.
// Stateless functions.
#include <immintrin.h>

#include <cstring>

#include "predictor/products.h"

#define KV_PRODUCTS __attribute__((target("avx2,fma")))
#define KV_PRODUCTS_INLINE __attribute__((target("avx2,fma"), always_inline)) inline

namespace kvstrata::predictor {

namespace {

constexpr std::size_t tokens_at_once = 4;
constexpr std::size_t half_rows = tile_rows / 2;

KV_PRODUCTS_INLINE __m256i load_pairs(const std::int16_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
KV_PRODUCTS_INLINE __m256i load_pairs(const std::int8_t* at) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
KV_PRODUCTS_INLINE __m256i all_of_pair(const std::int16_t* at) {
  std::int32_t pair = 0;
  std::memcpy(&pair, at, sizeof pair);
  return _mm256_set1_epi32(pair);
}

struct Halves {
  __m256 low, high;
};

/// A group's sums, scaled, added to `outputs`.
template <std::size_t tokens, typename Code>
KV_PRODUCTS_INLINE void add_group(const CodeView& input, std::size_t first_token,
                                  const TileView<Code>& weights, const Code* w, const float* scales,
                                  std::uint32_t g, Halves* outputs) {
  __m256i low[tokens], high[tokens];
  for (std::size_t t = 0; t < tokens; ++t) low[t] = high[t] = _mm256_setzero_si256();
  for (std::uint32_t i = g * weights.group; i < (g + 1) * weights.group; i += 2) {
    const __m256i low_pairs = load_pairs(w), high_pairs = load_pairs(w + 2 * half_rows);
    w += 2 * tile_rows;
    for (std::size_t t = 0; t < tokens; ++t) {
      const __m256i pair = all_of_pair(input.row(first_token + t) + i);
      low[t] = _mm256_add_epi32(low[t], _mm256_madd_epi16(low_pairs, pair));
      high[t] = _mm256_add_epi32(high[t], _mm256_madd_epi16(high_pairs, pair));
    }
  }
  for (std::size_t t = 0; t < tokens; ++t) {
    const __m256 scale = _mm256_set1_ps(input.row_scales(first_token + t)[g]);
    outputs[t].low = _mm256_fmadd_ps(_mm256_cvtepi32_ps(low[t]),
                                     _mm256_mul_ps(scale, _mm256_loadu_ps(scales)), outputs[t].low);
    outputs[t].high =
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(high[t]),
                        _mm256_mul_ps(scale, _mm256_loadu_ps(scales + half_rows)), outputs[t].high);
  }
}

template <std::size_t tokens, typename Code>
KV_PRODUCTS void multiply_tile(const CodeView& input, std::size_t first_token,
                               const TileView<Code>& weights, std::size_t tile, float* out) {
  Halves outputs[tokens];
  for (Halves& output : outputs) output.low = output.high = _mm256_setzero_ps();
  const std::size_t group_codes = std::size_t{weights.group} * tile_rows;
  for (std::uint32_t g = 0; g < weights.groups(); ++g) {
    add_group<tokens>(input, first_token, weights, weights.tile(tile) + g * group_codes,
                      weights.tile_scales(tile) + g * std::size_t{tile_rows}, g, outputs);
  }
  const std::size_t first = tile * tile_rows;
  float numbers[tile_rows];
  for (std::size_t t = 0; t < tokens; ++t) {
    _mm256_storeu_ps(numbers, outputs[t].low);
    _mm256_storeu_ps(numbers + half_rows, outputs[t].high);
    std::memcpy(out + (first_token + t) * weights.rows + first, numbers,
                weights.rows_of(tile) * sizeof(float));
  }
}

}  // namespace

const ProductKernels avx2_product_kernels{
    tokens_at_once,
    {multiply_tile<tokens_at_once, std::int8_t>, multiply_tile<1, std::int8_t>},
    {multiply_tile<tokens_at_once, std::int16_t>, multiply_tile<1, std::int16_t>}};

}  // namespace kvstrata::predictor
