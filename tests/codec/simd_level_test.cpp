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
  CHECK(kernels_of(best_simd_level()).decode != nullptr);
}

TEST_CASE("A level that the CPU lacks falls to one it has") {
  const Kernels& highest = kernels_of(SimdLevel::avx512);
  const bool known = &highest == &scalar_kernels || highest.decode != scalar_kernels.decode;
  CHECK(known);
  CHECK(&kernels_of(SimdLevel::scalar) == &scalar_kernels);
}
