#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "codec/linear/cell_scalar.h"
#include "codec/linear/lanes_avx512.h"
#include "codec/linear/linear_kernels.h"
#include "codec/linear/number.h"
#include "codec/linear/token_scale.h"

namespace kvstrata::codec {

namespace avx512 {

#include "codec/linear/linear_kernels.inl"

const LinearKernels& linear_kernels() {
  static constexpr LinearKernels kernels{map,  join,      learn,       turn,   guess,
                                         know, know_pair, pack_errors, decode, encode};
  return kernels;
}

}  // namespace avx512

const LinearKernels avx512_linear_kernels = avx512::linear_kernels();

}  // namespace kvstrata::codec
