// Run three times by meson, with KVSTRATA_SIMD set and without.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "codec/kernels.h"

using namespace kvstrata::codec;

TEST_CASE("KVSTRATA_SIMD lowers the level of machine code and never raises it") {
  const char* const wanted = std::getenv("KVSTRATA_SIMD");  // NOLINT(concurrency-mt-unsafe)
  const std::string name = wanted == nullptr ? "" : wanted;
  if (name == "scalar") CHECK(best_simd_level() == SimdLevel::scalar);
  if (name == "avx2") CHECK(best_simd_level() <= SimdLevel::avx2);
  const bool scalar_only = &kernels_of(SimdLevel::avx512) == &scalar_kernels;
  if (name.empty() && !scalar_only) CHECK(best_simd_level() != SimdLevel::scalar);
}

#if defined(__x86_64__)
TEST_CASE("A level that the CPU lacks falls to one it has") {
  const Kernels* const highest = &kernels_of(SimdLevel::avx512);
  const Kernels* const middle = &kernels_of(SimdLevel::avx2);
  CHECK((middle == &scalar_kernels || middle == &avx2_kernels));
  CHECK((highest == middle || highest == &avx512_kernels));
  CHECK(&kernels_of(SimdLevel::scalar) == &scalar_kernels);
}
#endif
