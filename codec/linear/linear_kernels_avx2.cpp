#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "codec/linear/cell_scalar.h"
#include "codec/linear/lanes_avx2.h"
#include "codec/linear/linear_kernels.h"
#include "codec/linear/number.h"
#include "codec/linear/token_scale.h"

namespace kvstrata::codec {

namespace avx2 {

#include "codec/linear/linear_kernels.inl"

}  // namespace avx2

const LinearKernels avx2_linear_kernels = avx2::kernels;

}  // namespace kvstrata::codec
