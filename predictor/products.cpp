#include "predictor/products.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/kernels.h"
#include "kvstrata/check.h"

namespace kvstrata::predictor {

namespace {

template <typename Code>
void multiply_tile(const CodeView& input, std::size_t token, const TileView<Code>& weights,
                   std::size_t tile, float* out) {
  const std::int16_t* a = input.row(token);
  const Code* w = weights.tile(tile);
  std::array<float, tile_rows> outputs{};
  for (std::uint32_t g = 0; g < weights.groups(); ++g) {
    std::array<std::int32_t, tile_rows> sums{};
    for (std::uint32_t i = 0; i < weights.group; i += 2) {
      for (std::uint32_t row = 0; row < tile_rows; ++row, w += 2) {
        sums[row] += a[i] * std::int32_t{w[0]} + a[i + 1] * std::int32_t{w[1]};
      }
    }
    a += weights.group;
    const float scale = input.row_scales(token)[g];
    const float* const scales = weights.tile_scales(tile) + g * std::size_t{tile_rows};
    for (std::uint32_t row = 0; row < tile_rows; ++row) {
      outputs[row] = std::fma(static_cast<float>(sums[row]), scale * scales[row], outputs[row]);
    }
  }
  std::copy_n(outputs.begin(), weights.rows_of(tile),
              out + token * weights.rows + tile * tile_rows);
}

template <typename Code>
std::vector<float> products_by(const TileKernels<Code>& kernels, std::size_t tokens_at_once,
                               const CodeView& input, const TileView<Code>& weights) {
  KV_CHECK(input.columns == weights.columns && input.group == weights.group,
           "a matrix for other rows");
  std::vector<float> out(std::size_t{input.rows} * weights.rows);
  for (std::size_t tile = 0; tile < weights.tiles(); ++tile) {
    std::size_t token = 0;
    for (; token + tokens_at_once <= input.rows; token += tokens_at_once) {
      kernels.some(input, token, weights, tile, out.data());
    }
    for (; token < input.rows; ++token) kernels.one(input, token, weights, tile, out.data());
  }
  return out;
}

}  // namespace

const ProductKernels scalar_product_kernels{
    1,
    {multiply_tile<std::int8_t>, multiply_tile<std::int8_t>},
    {multiply_tile<std::int16_t>, multiply_tile<std::int16_t>}};

const ProductKernels& product_kernels_of([[maybe_unused]] codec::SimdLevel level) {
#if defined(__x86_64__)
  const codec::SimdLevel usable = std::min(level, codec::detected_product_level());
  if (usable == codec::SimdLevel::avx512) return avx512_product_kernels;
  if (usable == codec::SimdLevel::avx2) return avx2_product_kernels;
#endif
  return scalar_product_kernels;
}

std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int8_t>& weights) {
  return products_by(kernels.with_8_bits, kernels.tokens_at_once, input, weights);
}

std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int16_t>& weights) {
  return products_by(kernels.with_16_bits, kernels.tokens_at_once, input, weights);
}

}  // namespace kvstrata::predictor
