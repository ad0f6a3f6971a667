// Decoding as a chain of two kernels, for instruction sets that do not do both at once.
#pragma once

#include <algorithm>
#include <array>

#include "codec/kernels.h"
#include "codec/raw_bits.h"
#include "codec/scalar_format.h"

namespace kvstrata::codec {

inline constexpr const char* rans_too_short = "rANS bytes end too early";
inline constexpr const char* escapes_too_few = "escapes end too early";

/// Kernels::decode of decode_symbols() and merge() of `kernels`. So many steps at a time that their
/// symbols stay in the first-level cache.
inline const char* decode_in_batches(const Kernels& kernels, DType dtype, bool sign_coded,
                                     StepInput& input, const DecodeTable* tables,
                                     const std::uint8_t* unit_table, std::size_t steps,
                                     std::uint8_t* scalars) {
  constexpr std::size_t batch_steps = 16;
  alignas(64) std::array<std::uint8_t, batch_steps * lanes> batch_symbols;
  const ScalarFormat format = scalar_format(dtype);
  while (steps > 0) {
    const std::size_t count = std::min(batch_steps, steps);
    if (!kernels.decode_symbols(input.rans, tables, unit_table, count, batch_symbols.data())) {
      return rans_too_short;
    }
    input.escapes.next = kernels.merge(dtype, sign_coded, batch_symbols.data(), tables, unit_table,
                                       input.raw, count, input.escapes, scalars);
    if (input.escapes.next == nullptr) return escapes_too_few;
    input.raw += count * raw_step_bytes(format.raw_width(sign_coded));
    unit_table += count * step_units;
    scalars += count * lanes * format.bytes;
    steps -= count;
  }
  return nullptr;
}

}  // namespace kvstrata::codec
