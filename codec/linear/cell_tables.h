// CellTables: how often each symbol comes in each context of the cell coder. Plain data, read from
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/linear/cell.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::codec {

inline constexpr std::size_t cell_symbols = 16;
inline constexpr std::uint32_t cell_frequency_bits = 12;
inline constexpr std::uint32_t cell_frequency_sum = 1U << cell_frequency_bits;

/// Symbols 0..13 are cells -7..6 from that of mu; then what lies above, and below.
inline constexpr std::int64_t cell_reach_down = 7, cell_reach_up = 6;
inline constexpr std::uint32_t symbol_above = 14, symbol_below = 15;

/// Counts to fit tables on.
using CellCounts = std::array<std::array<std::uint64_t, cell_symbols>, cell_contexts>;

class CellTables {
 public:
  /// Of a symbol: its frequency (1.., of cell_frequency_sum), and where its slots begin.
  struct Entry {
    std::uint16_t frequency, begin;
  };
  using Row = std::array<Entry, cell_symbols>;

  /// In integers alone. Contexts with few counts borrow from a bell curve.
  static CellTables fit(const CellCounts& counts);
  /// Of serialize(); `corrupt` for anything else.
  static Result<CellTables> parse(ByteView bytes);

  ByteVector serialize() const;  ///< u16 a frequency, little-endian: serialized_bytes
  static constexpr std::size_t serialized_bytes = cell_contexts * cell_symbols * 2;

  const Row& row(std::size_t context) const { return rows_[context]; }
  const Row* rows() const { return rows_.data(); }

 private:
  void set_row(std::size_t context, const std::array<std::uint16_t, cell_symbols>& frequencies);

  std::array<Row, cell_contexts> rows_;
};

}  // namespace kvstrata::codec
