// A TableSet is the static codec's tables, ready to code with: the records as stored and the forms
// the kernels read. Immutable once made but for the plans it keeps, shared freely between threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "codec/codec.h"
#include "codec/plan_shelf.h"
#include "codec/static_format.h"

namespace kvstrata::codec {

/// What decoding needs of a table, each line one vector register.
struct alignas(64) DecodeTable {
  /// Search tree over the cumulative frequencies: node k (1..15) has children 2k and 2k + 1. Stored
  /// as (threshold − 1) ^ 0x80, so that a signed compare with slot ^ 0x80 answers slot >=
  /// threshold.
  std::array<std::uint8_t, symbols> tree;
  std::array<std::uint8_t, symbols> frequency;
  std::array<std::uint8_t, symbols> cumulative;
  std::array<std::uint8_t, symbols> key;
  std::array<std::uint8_t, symbols> sign;  ///< 0 or 1; all 0 if the sign is raw
  /// Of bf16: what key and coded sign put in the scalar's two bytes.
  std::array<std::uint8_t, symbols> low_byte;
  std::array<std::uint8_t, symbols> high_byte;
  alignas(64) std::array<std::uint8_t, frequency_sum> symbol_of_slot;
};

/// What encoding needs of a table.
struct alignas(16) EncodeTable {
  std::array<std::uint8_t, symbols> frequency;
  std::array<std::uint8_t, symbols> cumulative;
  std::array<std::uint8_t, symbols> reciprocal_low;  ///< of min(65535, 65536 / frequency)
  std::array<std::uint8_t, symbols> reciprocal_high;
  /// By sign, then key − window_base: the symbol, with the sign's escape XORed in. Only if
  /// windowed.
  std::array<std::array<std::uint8_t, symbols>, 2> window;
  std::array<std::uint8_t, symbols> window_base;        ///< 16 times the same
  std::array<std::array<std::uint8_t, 256>, 2> symbol;  ///< by sign, then key
  bool windowed;                                        ///< all named keys lie within 16 (mod 256)
};

/// The first escape symbol; those above it are escapes too.
constexpr std::uint8_t first_escape(bool sign_coded) {
  return sign_coded ? 14 : 15;
}

/// Checks a record read from outside; nullptr if it is one, else what is wrong.
const char* find_fault(const TableRecord& record, DType dtype);

class TableSet final : public StaticTables {
 public:
  /// Counts of the shape the tables belong to; all 0 for opaque shapes.
  struct Dimensions {
    DType dtype = DType::bf16;
    bool opaque = false;
    std::uint32_t layers = 0, channels_k = 0, channels_v = 0;

    static Dimensions of(const BlockShape& shape);
    std::uint64_t index_bytes() const {
      return std::uint64_t{layers} * (std::uint64_t{channels_k} + channels_v);
    }
    friend bool operator==(const Dimensions&, const Dimensions&) = default;
  };

  /// Records are valid, those with coded signs first; the index names records that exist.
  TableSet(Dimensions dimensions, std::vector<TableRecord> records, ByteVector index);

  ByteVector serialize() const override;
  std::uint64_t content_hash() const override { return content_hash_; }

  const Dimensions& dimensions() const { return dimensions_; }
  std::size_t size() const { return records_.size(); }
  std::size_t sign_coded_tables() const { return sign_coded_tables_; }
  const std::vector<TableRecord>& records() const { return records_; }
  const DecodeTable* decode_tables() const { return decode_tables_.data(); }
  const EncodeTable* encode_tables() const { return encode_tables_.data(); }

  /// The table of each channel of sub-stream `index` of a shape with V or without; empty if opaque.
  ByteView channel_tables(std::uint32_t substream) const;

  /// Plans made with these tables.
  PlanShelf& plans() const { return plans_; }

 private:
  std::uint32_t sides() const { return dimensions_.channels_v == 0 ? 1 : 2; }

  Dimensions dimensions_;
  std::vector<TableRecord> records_;
  ByteVector index_;
  std::vector<DecodeTable> decode_tables_;
  std::vector<EncodeTable> encode_tables_;
  std::size_t sign_coded_tables_ = 0;
  std::uint64_t content_hash_ = 0;
  mutable PlanShelf plans_;
};

}  // namespace kvstrata::codec
