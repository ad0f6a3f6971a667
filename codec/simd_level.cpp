#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "codec/codec.h"
#include "codec/kernels.h"

#if defined(__x86_64__)
#include "codec/avx2.h"
#include "codec/avx512.h"
#endif

namespace kvstrata::codec {

namespace {

SimdLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("popcnt");
  const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
  if (avx2) return avx512 ? SimdLevel::avx512 : SimdLevel::avx2;
#endif
  return SimdLevel::scalar;
}

SimdLevel detect_products() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool more = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512cd");
  if (__builtin_cpu_supports("fma")) {
    return std::min(detected_simd_level(), more ? SimdLevel::avx512 : SimdLevel::avx2);
  }
#endif
  return SimdLevel::scalar;
}

SimdLevel wanted() {
  const char* const name = std::getenv("KVSTRATA_SIMD");  // read once, before threads write it
  if (name == nullptr) return SimdLevel::avx512;
  const std::string_view text(name);
  if (text == "scalar") return SimdLevel::scalar;
  return text == "avx2" ? SimdLevel::avx2 : SimdLevel::avx512;
}

}  // namespace

SimdLevel detected_simd_level() {
  static const SimdLevel level = detect();
  return level;
}

SimdLevel detected_product_level() {
  static const SimdLevel level = detect_products();
  return level;
}

SimdLevel best_simd_level() {
  static const SimdLevel level = std::min(detected_simd_level(), wanted());
  return level;
}

#if defined(__x86_64__)
const Kernels avx512_kernels{avx512::decode, avx512::decode_symbols, avx512::encode, avx2::merge,
                             avx2::split,    avx512::gather,         avx512::scatter};
const Kernels avx2_kernels{avx2::decode, avx2::decode_symbols, avx2::encode, avx2::merge,
                           avx2::split,  avx2::gather,         avx2::scatter};
#endif

const Kernels& kernels_of([[maybe_unused]] SimdLevel level) {
#if defined(__x86_64__)
  const SimdLevel usable = std::min(level, detected_simd_level());
  if (usable == SimdLevel::avx512) return avx512_kernels;
  if (usable == SimdLevel::avx2) return avx2_kernels;
#endif
  return scalar_kernels;
}

std::string_view to_string(CodecId id) {
  switch (id) {
    case CodecId::raw: return "raw";
    case CodecId::static_tables: return "static";
    case CodecId::linear: return "linear";
    case CodecId::predictor: return "predictor";
  }
  return "unknown";
}

}  // namespace kvstrata::codec
