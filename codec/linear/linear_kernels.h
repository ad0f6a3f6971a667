// The inner loops of the linear codec, once per instruction set. Every set computes the same
// numbers: what is float is one operation after the other in the order said here, what is summed in
// any order are integers. Stateless functions.
//
// Rows have a number a token, padded_tokens() of them; those beyond the block's are of no meaning.
// Int8 numbers of 4 channels are packed into an int32 a token: channel c in byte c mod 4 of row
// c / 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/linear/cell_coder.h"
#include "codec/linear/linear_model.h"

namespace kvstrata::codec {

/// Sums of products of int8: of row r and token t, over all inputs and their channels,
/// weights[r · row_stride + input · channels + c] · input[c][t].
struct Products {
  const std::int8_t* weights;
  std::size_t row_stride, rows;
  std::span<const std::int32_t* const> inputs;
  std::size_t channels;  ///< of an input; vector kernels want a multiple of 4
  std::size_t tokens;    ///< padded
};

/// Where the numbers of a token that come from the channels go, once they are known.
struct Known {
  float per_sigma;       ///< 1 / sigma
  float* errors[2];      ///< rows of what comes, in sigmas; the second one of a pair
  std::uint32_t* units;  ///< adds units_of() the errors
  float mean[2], input_scale[2];
  std::int32_t* inputs[2];  ///< packed rows
  std::size_t bytes[2];     ///< the channel's byte in them
};

/// Rows of a pair that RoPE turned.
struct Turns {
  const float *cosine, *sine;
};

struct LinearKernels {
  /// expected[r][t] = fma(float(sum), scale[r], bias[r]).
  void (*map)(const Products& products, const float* scale, const float* bias, float* expected);
  /// expected[r][t] = fma(float(sum), scale[r] · token_scale[t], expected[r][t]).
  void (*join)(const Products& products, const float* scale, const float* token_scale,
               float* expected);
  /// For j rising: expected[t] = fma(errors[j][t], weights[j], expected[t]).
  void (*learn)(const float* errors, std::span<const float> weights, std::size_t tokens,
                float* expected);
  /// first = fma(a, cosine, -(b · sine)), second = fma(b, cosine, a · sine).
  void (*turn)(const float* a, const float* b, const Turns& turns, std::size_t tokens, float* first,
               float* second);
  /// mu = expected · sigma, class = sigma_class + step.
  void (*guess)(const float* expected, const std::int32_t* steps, float sigma,
                std::int32_t sigma_class, std::size_t tokens, float* mu, std::int32_t* classes);
  /// What patterns say against what was expected (in sigmas): errors, units, inputs.
  void (*know)(const ScalarFormat& format, const std::uint32_t* patterns, const float* expected,
               std::size_t tokens, const Known& known);
  /// The same of a pair: turned errors and values are turned back.
  void (*know_pair)(const ScalarFormat& format, const std::uint32_t* const patterns[2],
                    const float* const turned[2], const Turns& turns, std::size_t tokens,
                    const Known& known);
  /// Errors of a panel as int8, of channels 0..count-1: to_int8(errors[c][t] · per_scale[t]).
  void (*pack_errors)(const float* errors, std::size_t count, const float* per_scale,
                      std::size_t tokens, std::int32_t* packed);
  /// Channels of a chain: see take_cell() and put_cell().
  void (*decode)(CellSource& source, const CellCoding& coding, const Guesses& guesses,
                 std::span<std::uint32_t> patterns);
  void (*encode)(CellSink& sink, const CellCoding& coding, const Guesses& guesses,
                 std::span<const std::uint32_t> patterns);
};

/// Those of `level`, or of the best level below it that this build and CPU have.
const LinearKernels& linear_kernels_of(SimdLevel level);

extern const LinearKernels scalar_linear_kernels;
#if defined(__x86_64__)
extern const LinearKernels avx2_linear_kernels;    ///< only where the CPU has AVX2 and FMA
extern const LinearKernels avx512_linear_kernels;  ///< only where it has AVX-512 with VNNI
#endif

}  // namespace kvstrata::codec
