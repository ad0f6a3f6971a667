// Coding scalars that are expected somewhere: the error's cell by rANS, the rest as raw bits. The
// reference, one scalar at a time; doc/linear-codec.md has the format of a chain.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codec/linear/cell_tables.h"
#include "kvstrata/check.h"

namespace kvstrata::codec {

/// Interleaved states: scalar i of a chain goes on with state i mod 8.
inline constexpr std::size_t cell_lanes = 8;

/// Collects a chain and codes it at the end, since rANS is coded from its last symbol on.
class CellEncoder {
 public:
  /// Of a floating dtype of at most 16 bits. The tables outlive the encoder.
  CellEncoder(DType dtype, const CellTables& tables)
      : format_(scalar_format(dtype)), range_(format_), tables_(tables) {
    KV_CHECK(format_.bytes <= 2, "cells are for dtypes of at most 16 bits");
  }

  /// `bits`: any pattern of the dtype. sigma = 2^(sigma_class / 4), in the units of the scalar.
  void put(std::uint32_t bits, float mu, int sigma_class);
  /// The chain: words u32 · raw_bytes u32 · states u32[8] · words u16[] · raw u8[].
  ByteVector finish();

 private:
  struct Coded {
    std::uint8_t context, symbol;
  };
  void append_raw(std::uint32_t bits, std::uint32_t count);
  void append_distance(std::uint64_t distance);

  ScalarFormat format_;
  FloatRange range_;
  const CellTables& tables_;
  std::vector<Coded> coded_;
  ByteVector raw_;
  std::uint64_t raw_bit_count_ = 0;
};

class CellDecoder {
 public:
  /// Reads the head of a chain; `corrupt` if the lengths in it are not those of `chain`.
  static Result<CellDecoder> open(DType dtype, const CellTables& tables, ByteView chain);

  /// The next scalar. On a chain that ends too early or names no scalar: 0, and failed() from then
  /// on.
  std::uint32_t get(float mu, int sigma_class);
  bool failed() const { return failed_; }
  /// True if every byte was used, no more, and the states are back where an encoder began.
  bool at_end() const;

 private:
  CellDecoder(DType dtype, const CellTables& tables)
      : format_(scalar_format(dtype)), range_(format_), tables_(&tables) {
    KV_CHECK(format_.bytes <= 2, "cells are for dtypes of at most 16 bits");
  }

  std::uint32_t take_symbol(std::size_t context);
  std::uint32_t take_raw(std::uint32_t count);
  std::uint64_t take_distance();
  std::uint32_t fail();

  ScalarFormat format_;
  FloatRange range_;
  const CellTables* tables_;
  std::array<std::uint32_t, cell_lanes> states_{};
  std::size_t lane_ = 0;
  ByteView words_, raw_;
  std::size_t word_ = 0;
  std::uint64_t raw_bit_ = 0;
  bool failed_ = false;
};

/// Adds a scalar's symbol to the counts that tables are fitted on.
void count_cell(DType dtype, std::uint32_t bits, float mu, int sigma_class, CellCounts& counts);

}  // namespace kvstrata::codec
