// 16 rows of weights in a register; eight tokens share each load of them. Stateless functions.
#include <immintrin.h>

#include <cstring>

#include "codec/avx512.h"  // quiets warnings of the compiler's own headers
#include "predictor/products.h"

#define KV_PRODUCTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,fma")))
#define KV_PRODUCTS_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,fma"), always_inline)) inline

namespace kvstrata::predictor {

namespace {

constexpr std::size_t tokens_at_once = 8;

KV_PRODUCTS_INLINE __m512i load_pairs(const std::int16_t* at) {
  return _mm512_loadu_si512(at);
}
KV_PRODUCTS_INLINE __m512i load_pairs(const std::int8_t* at) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
KV_PRODUCTS_INLINE __m512i all_of_pair(const std::int16_t* at) {
  std::int32_t pair = 0;
  std::memcpy(&pair, at, sizeof pair);
  return _mm512_set1_epi32(pair);
}

template <std::size_t tokens, typename Code>
KV_PRODUCTS void multiply_tile(const CodeView& input, std::size_t first_token,
                               const TileView<Code>& weights, std::size_t tile, float* out) {
  const Code* w = weights.tile(tile);
  __m512 outputs[tokens];
  for (__m512& output : outputs) output = _mm512_setzero_ps();
  for (std::uint32_t g = 0; g < weights.groups(); ++g) {
    __m512i sums[tokens];
    for (__m512i& sum : sums) sum = _mm512_setzero_si512();
    for (std::uint32_t i = g * weights.group; i < (g + 1) * weights.group; i += 2) {
      const __m512i pairs = load_pairs(w);
      w += 2 * tile_rows;
      for (std::size_t t = 0; t < tokens; ++t) {
        sums[t] = _mm512_dpwssd_epi32(sums[t], pairs, all_of_pair(input.row(first_token + t) + i));
      }
    }
    const __m512 scales = _mm512_loadu_ps(weights.tile_scales(tile) + g * std::size_t{tile_rows});
    for (std::size_t t = 0; t < tokens; ++t) {
      const __m512 scale =
          _mm512_mul_ps(_mm512_set1_ps(input.row_scales(first_token + t)[g]), scales);
      outputs[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t]), scale, outputs[t]);
    }
  }
  const std::size_t first = tile * tile_rows;
  const auto mask = static_cast<__mmask16>((1U << weights.rows_of(tile)) - 1);
  for (std::size_t t = 0; t < tokens; ++t) {
    _mm512_mask_storeu_ps(out + (first_token + t) * weights.rows + first, mask, outputs[t]);
  }
}

}  // namespace

const ProductKernels avx512_product_kernels{
    tokens_at_once,
    {multiply_tile<tokens_at_once, std::int8_t>, multiply_tile<1, std::int8_t>},
    {multiply_tile<tokens_at_once, std::int16_t>, multiply_tile<1, std::int16_t>}};

}  // namespace kvstrata::predictor
