// Products of activations with weights: groups in rising order, each sum exact, so that every level
// of machine code gives the same. Stateless; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"
#include "predictor/codes.h"

namespace kvstrata::predictor {

/// out[token][row], for all tokens of `input` and rows of the weights, whose groups are the same.
struct ProductKernels {
  void (*with_8_bits)(const CodeView& input, const TileView<std::int8_t>& weights, float* out);
  void (*with_16_bits)(const CodeView& input, const TileView<std::int16_t>& weights, float* out);
};

extern const ProductKernels scalar_product_kernels;
#if defined(__x86_64__)
extern const ProductKernels avx2_product_kernels;    ///< also needs FMA
extern const ProductKernels avx512_product_kernels;  ///< also needs VNNI
#endif

/// Those of a level, or of the best one that this CPU has.
const ProductKernels& product_kernels_of(codec::SimdLevel level);

std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int8_t>& weights);
std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int16_t>& weights);

}  // namespace kvstrata::predictor
