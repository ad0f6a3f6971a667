// The AVX-512 kernels, for CPUs with VBMI2: bytes of a stream expand into lanes in one instruction.
// Every function carries KV_AVX512; they are reached only after kernels_of() has seen the CPU.
// Stateless functions.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "codec/kernels.h"

#define KV_AVX512                                                         \
  __attribute__((                                                         \
      target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
             "popcnt")))
#define KV_AVX512_INLINE                                                             \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
                        "popcnt"),                                                   \
                 always_inline)) inline

namespace kvstrata::codec::avx512 {

bool decode(RansDecoder& decoder, const DecodeTable* tables, const std::uint8_t* unit_table,
            std::size_t steps, std::uint8_t* symbols_out);
std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                     const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                     std::size_t steps, std::uint8_t* out_end);

}  // namespace kvstrata::codec::avx512
