#include "codec/linear/linear_kernels.h"

#include <algorithm>

namespace kvstrata::codec {

const LinearKernels& linear_kernels_of([[maybe_unused]] SimdLevel level) {
  return scalar_linear_kernels;
}

}  // namespace kvstrata::codec
