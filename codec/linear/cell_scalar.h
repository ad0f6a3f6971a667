// One scalar of a chain: the definition that every kernel follows, and what kernels leave to it.
// Pure functions and functions of a chain. doc/linear-codec.md.
#pragma once

#include "codec/linear/cell_coder.h"

namespace kvstrata::codec {

/// Distances of tails are below 2^distance_bits; that many zeros announce a whole scalar.
inline constexpr std::uint32_t distance_bits = 30;
/// So many zeros announce a byte with the number of halvings.
inline constexpr std::uint32_t halvings_in_unary = 16;
inline constexpr std::uint32_t cell_state_min = 1U << 16;

/// Of cells 0 and -1, in the stream of rare things: as many zeros as the value can be halved.
inline void put_halvings(BitWriter& rare, std::uint32_t halvings) {
  if (halvings < halvings_in_unary) {
    rare.append(1U << halvings, halvings + 1);
  } else {
    rare.append_zeros(halvings_in_unary);
    rare.append(halvings, 8);
  }
}
inline std::uint32_t take_halvings(BitReader& rare) {
  const std::uint32_t zeros = rare.take_zeros(halvings_in_unary);
  return zeros < halvings_in_unary ? zeros : rare.take(8);
}

/// A scalar beyond the 14 cells, as `symbol_above` or `symbol_below` begins it; all of it is rare.
/// Returns the symbol. `bits` is mirrored where the expectation says so.
std::uint8_t put_tail(CellSink& sink, const CellCoding& coding, std::uint32_t bits,
                      const Expectation& expectation);
/// Returns the pattern, mirrored back; on a chain that names no scalar: 0, and source.failed.
std::uint32_t take_tail(CellSource& source, const CellCoding& coding, std::uint32_t symbol,
                        const Expectation& expectation);

void put_cell(CellSink& sink, const CellCoding& coding, std::size_t lane, std::uint32_t bits,
              float mu, int sigma_class);
std::uint32_t take_cell(CellSource& source, const CellCoding& coding, std::size_t lane, float mu,
                        int sigma_class);

}  // namespace kvstrata::codec
