// Products of activations with weights: groups in rising order, each sum exact, so that every level
// of machine code gives the same. Stateless; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"
#include "predictor/codes.h"

namespace kvstrata::predictor {

/// What a level does of one tile of weights, whose groups are those of `input`: out[token][row] for
/// the tile's rows and `tokens_at_once` tokens from `first_token` on, or for that one alone.
template <typename Code>
struct TileKernels {
  using Multiply = void (*)(const CodeView& input, std::size_t first_token,
                            const TileView<Code>& weights, std::size_t tile, float* out);
  Multiply some, one;
};

struct ProductKernels {
  std::size_t tokens_at_once;
  TileKernels<std::int8_t> with_8_bits;
  TileKernels<std::int16_t> with_16_bits;
};

extern const ProductKernels scalar_product_kernels;
#if defined(__x86_64__)
extern const ProductKernels avx2_product_kernels;    ///< also needs FMA
extern const ProductKernels avx512_product_kernels;  ///< also needs VNNI
#endif

/// Those of a level, or of the best one that this CPU has.
const ProductKernels& product_kernels_of(codec::SimdLevel level);

/// out[token][row], for all tokens of `input` and rows of the weights.
std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int8_t>& weights);
std::vector<float> products(const ProductKernels& kernels, const CodeView& input,
                            const TileView<std::int16_t>& weights);

}  // namespace kvstrata::predictor
