// Coding scalars that are expected somewhere: the error's cell by rANS, the rest as raw bits. A
// chain is the scalars of a layer, channel by channel. doc/linear-codec.md has its format.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "codec/linear/bit_stream.h"
#include "codec/linear/cell_tables.h"

namespace kvstrata::codec {

/// Interleaved states: token t of a channel goes on with state t mod lanes. More are faster and
/// cost 4 bytes each.
inline constexpr std::size_t cell_lanes_few = 16, cell_lanes_many = 32;
/// Of a chain of so many scalars.
constexpr std::size_t cell_lanes_of(std::uint64_t scalars) {
  return scalars < 32'768 ? cell_lanes_few : cell_lanes_many;
}

/// Rows of numbers, one a token, have room for whole groups of these.
inline constexpr std::size_t token_group = 16;
constexpr std::size_t padded_tokens(std::size_t tokens) {
  return (tokens + token_group - 1) / token_group * token_group;
}

/// Where the scalars of a channel are expected: mu, and sigma = 2^(sigma_class / 4), of
/// padded_tokens() numbers each.
struct Guesses {
  const float* mu;
  const std::int32_t* sigma_class;
};

/// What all scalars of a chain have in common. A floating dtype of at most 16 bits.
struct CellCoding {
  ScalarFormat format;
  FloatRange range;
  const CellTables* tables;

  CellCoding(DType dtype, const CellTables& with);
};

/// A chain while it is decoded. Its streams have stream_padding.
struct CellSource {
  std::array<std::uint32_t, cell_lanes_many> states{};
  std::size_t lanes = cell_lanes_few;
  const std::uint16_t *words = nullptr, *words_end = nullptr;
  BitReader raw, rare;
  bool failed = false;
};

/// A chain while it is encoded: rANS is coded from the last symbol on, so these are kept.
struct CellSink {
  struct Coded {
    std::uint8_t context, symbol, lane;
  };
  std::size_t lanes = cell_lanes_few;
  std::vector<Coded> coded;
  BitWriter raw, rare;
};

/// Collects a chain and codes it at the end.
class CellEncoder {
 public:
  /// For `scalars` of them. The tables outlive the encoder.
  CellEncoder(DType dtype, const CellTables& tables, std::uint64_t scalars,
              SimdLevel level = best_simd_level());

  /// A channel; its patterns have padded_tokens() numbers, too.
  void put(std::span<const std::uint32_t> patterns, const Guesses& guesses);
  /// The chain: words u32 · raw_bytes u32 · rare_bytes u32 · states u32[lanes] · words u16[] ·
  /// raw u8[] · rare u8[].
  ByteVector finish();

 private:
  CellCoding coding_;
  SimdLevel level_;
  CellSink sink_;
};

class CellDecoder {
 public:
  /// Reads the head of a chain of `scalars`; `corrupt` if the lengths in it are not those of
  /// `chain`.
  static Result<CellDecoder> open(DType dtype, const CellTables& tables, ByteView chain,
                                  std::uint64_t scalars, SimdLevel level = best_simd_level());

  /// The next channel: patterns.size() scalars, room for padded_tokens(). False on a chain that
  /// ends too early or names no scalar, from then on.
  bool get(const Guesses& guesses, std::span<std::uint32_t> patterns);
  /// True if every byte was used, no more, and the states are back where an encoder began.
  bool at_end() const;

 private:
  CellDecoder(DType dtype, const CellTables& tables, SimdLevel level)
      : coding_(dtype, tables), level_(level) {}

  CellCoding coding_;
  SimdLevel level_;
  std::vector<std::uint8_t> streams_;  ///< a copy of the chain's, with padding
  CellSource source_;
};

/// Adds a scalar's symbol to the counts that tables are fitted on.
void count_cell(DType dtype, std::uint32_t bits, float mu, int sigma_class, CellCounts& counts);

}  // namespace kvstrata::codec
