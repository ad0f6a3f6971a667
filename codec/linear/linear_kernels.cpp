#include "codec/linear/linear_kernels.h"

#include <algorithm>

#include "codec/kernels.h"

namespace kvstrata::codec {

const LinearKernels& linear_kernels_of([[maybe_unused]] SimdLevel level) {
#if defined(__x86_64__)
  const SimdLevel usable = std::min(level, detected_product_level());
  if (usable == SimdLevel::avx512) return avx512_linear_kernels;
  if (usable == SimdLevel::avx2) return avx2_linear_kernels;
#endif
  return scalar_linear_kernels;
}

}  // namespace kvstrata::codec
