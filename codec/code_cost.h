// CodeCost: how many bits a table spends on each scalar, in integers, so that fits are the same on
// every machine. Plain data.
#pragma once

#include <array>
#include <cstdint>

#include "codec/scalar_format.h"
#include "codec/static_format.h"

namespace kvstrata::codec {

inline constexpr std::uint32_t cost_one_bit = 1U << 16;

/// A scalar's (sign, key) as one number: sign · 256 + key.
inline constexpr std::size_t key_bins = 512;
using KeyCounts = std::array<std::uint64_t, key_bins>;

/// The bin of a scalar's bit pattern.
constexpr std::size_t key_bin(const ScalarFormat& format, std::uint32_t bits) {
  return format.sign(bits) * 256U + format.key(bits);
}

/// Bits of a symbol of `frequency` (1..256) of 256, in units of cost_one_bit.
std::uint32_t symbol_cost(std::uint32_t frequency);

struct CodeCost {
  std::array<std::uint32_t, key_bins>
      of_bin;  ///< symbol, escape and raw sign; units of cost_one_bit

  static CodeCost of(const TableRecord& record);
};

/// The table that codes `counts` best: coded or raw sign, and as many symbols as pay.
TableRecord build_table(const KeyCounts& counts, const ScalarFormat& format);

}  // namespace kvstrata::codec
