#include "predictor/products.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/kernels.h"
#include "kvstrata/check.h"

namespace kvstrata::predictor {

namespace {

/// A tile's outputs for one token.
template <typename Code>
void multiply_tile(const CodeView& input, std::size_t token, const TileView<Code>& weights,
                   std::size_t tile, std::array<float, tile_rows>& out) {
  const std::int16_t* a = input.row(token);
  const Code* w = weights.tile(tile);
  out.fill(0);
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
      out[row] = std::fma(static_cast<float>(sums[row]), scale * scales[row], out[row]);
    }
  }
}

template <typename Code>
void multiply(const CodeView& input, const TileView<Code>& weights, float* out) {
  std::array<float, tile_rows> outputs{};
  for (std::size_t tile = 0; tile < weights.tiles(); ++tile) {
    const std::size_t first = tile * tile_rows;
    const std::size_t rows = std::min<std::size_t>(tile_rows, weights.rows - first);
    for (std::size_t token = 0; token < input.rows; ++token) {
      multiply_tile(input, token, weights, tile, outputs);
      std::copy_n(outputs.begin(), rows, out + token * weights.rows + first);
    }
  }
}

template <typename Code, typename Kernel>
std::vector<float> products_by(Kernel kernel, const CodeView& input,
                               const TileView<Code>& weights) {
  KV_CHECK(input.columns == weights.columns && input.group == weights.group,
           "a matrix for other rows");
  std::vector<float> out(std::size_t{input.rows} * weights.rows);
  kernel(input, weights, out.data());
  return out;
}

/// These have more to ask of a CPU than the static codec's.
codec::SimdLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool vnni = __builtin_cpu_supports("avx512vnni");
  if (__builtin_cpu_supports("fma")) {
    return std::min(codec::detected_simd_level(),
                    vnni ? codec::SimdLevel::avx512 : codec::SimdLevel::avx2);
  }
#endif
  return codec::SimdLevel::scalar;
}

}  // namespace

const ProductKernels scalar_product_kernels{multiply<std::int8_t>, multiply<std::int16_t>};

const ProductKernels& product_kernels_of([[maybe_unused]] codec::SimdLevel level) {
#if defined(__x86_64__)
  static const codec::SimdLevel detected = detect();
  const codec::SimdLevel usable = std::min(level, detected);
  if (usable == codec::SimdLevel::avx512) return avx512_product_kernels;
  if (usable == codec::SimdLevel::avx2) return avx2_product_kernels;
#endif
  return scalar_product_kernels;
}

std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int8_t>& weights) {
  return products_by(kernels.with_8_bits, input, weights);
}

std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int16_t>& weights) {
  return products_by(kernels.with_16_bits, input, weights);
}

}  // namespace kvstrata::predictor
