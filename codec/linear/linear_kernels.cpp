#include "codec/linear/linear_kernels.h"

#include <algorithm>

#include "codec/kernels.h"

namespace kvstrata::codec {

namespace {

/// These have more to ask of a CPU than the static codec's.
SimdLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("fma");
  const bool more = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512cd");
  if (fma) return std::min(detected_simd_level(), more ? SimdLevel::avx512 : SimdLevel::avx2);
#endif
  return SimdLevel::scalar;
}

}  // namespace

const LinearKernels& linear_kernels_of([[maybe_unused]] SimdLevel level) {
#if defined(__x86_64__)
  static const SimdLevel detected = detect();
  const SimdLevel usable = std::min(level, detected);
  if (usable == SimdLevel::avx512) return avx512_linear_kernels;
  if (usable == SimdLevel::avx2) return avx2_linear_kernels;
#endif
  return scalar_linear_kernels;
}

}  // namespace kvstrata::codec
