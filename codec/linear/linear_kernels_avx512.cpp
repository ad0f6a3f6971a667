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

}  // namespace avx512

const LinearKernels avx512_linear_kernels = avx512::kernels;

}  // namespace kvstrata::codec
