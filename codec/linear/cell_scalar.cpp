#include "codec/linear/cell_scalar.h"

namespace kvstrata::codec {

namespace {

/// Symbol and distance of a scalar; no distance for the 14 cells around mu.
struct Symbol {
  std::uint32_t symbol;
  std::uint64_t distance;  ///< from 1; of tails
};

Symbol symbol_of(std::int64_t cell, std::int64_t expected) {
  const std::int64_t off = cell - expected;
  if (off > cell_reach_up) return {symbol_above, static_cast<std::uint64_t>(off - cell_reach_up)};
  if (off < -cell_reach_down) {
    return {symbol_below, static_cast<std::uint64_t>(-off - cell_reach_down)};
  }
  return {static_cast<std::uint32_t>(off + cell_reach_down), 0};
}

std::uint32_t scalar_bits(const ScalarFormat& format) {
  return format.bytes * 8;
}

/// Elias-gamma: as many zeros as the number has bits after its first, a one, and those bits.
void put_distance(BitWriter& rare, std::uint64_t distance) {
  const auto more = static_cast<std::uint32_t>(std::bit_width(distance)) - 1;
  rare.append_zeros(more);
  rare.append(1, 1);
  rare.append(static_cast<std::uint32_t>(distance) & ((1U << more) - 1), more);
}

/// 0: a whole scalar follows.
std::uint64_t take_distance(BitReader& rare) {
  const std::uint32_t more = rare.take_zeros(distance_bits);
  return more == distance_bits ? 0 : std::uint64_t{1} << more | rare.take(more);
}

bool touches_zero(std::int64_t cell) {
  return cell == 0 || cell == -1;
}

/// The scalar at a place, mirrored back.
std::uint32_t scalar_of(CellSource& source, const CellCoding& coding, const CellPlace& place,
                        const Expectation& expectation) {
  std::uint32_t bits = 0;
  if (!scalar_at(coding.format, place, expectation.grid, bits)) {
    source.failed = true;
    return 0;
  }
  return expectation.mirrored ? mirrored(coding.format, bits) : bits;
}

std::uint32_t take_symbol(CellSource& source, const CellCoding& coding, std::size_t lane,
                          std::size_t context) {
  std::uint32_t& state = source.states[lane];
  const CellTables::Row& row = coding.tables->row(context);
  const std::uint32_t slot = state & (cell_frequency_sum - 1);
  std::uint32_t symbol = cell_symbols - 1;
  while (row[symbol].begin > slot) --symbol;
  state = row[symbol].frequency * (state >> cell_frequency_bits) + slot - row[symbol].begin;
  if (state < cell_state_min) {
    state <<= 16;
    if (source.words == source.words_end) {
      source.failed = true;
    } else {
      state |= *source.words++;
    }
  }
  return symbol;
}

}  // namespace

CellCoding::CellCoding(DType dtype, const CellTables& with)
    : format(scalar_format(dtype)), range(format), tables(&with) {
  KV_CHECK(format.bytes <= 2, "cells are for dtypes of at most 16 bits");
}

std::uint8_t put_tail(CellSink& sink, const CellCoding& coding, std::uint32_t bits,
                      const Expectation& expectation) {
  const ScalarFormat& format = coding.format;
  bool too_far = false;
  const CellPlace place = place_of(format, bits, expectation.grid, too_far);
  const Symbol to = symbol_of(place.cell, expectation.cell);
  if (too_far || to.distance >> distance_bits != 0) {
    sink.rare.append_zeros(distance_bits);
    sink.rare.append(bits, scalar_bits(format));
    return symbol_above;
  }
  put_distance(sink.rare, to.distance);
  if (touches_zero(place.cell)) put_halvings(sink.rare, place.halvings);
  sink.rare.append(place.raw, raw_bits_of(format, place.cell));
  return static_cast<std::uint8_t>(to.symbol);
}

std::uint32_t take_tail(CellSource& source, const CellCoding& coding, std::uint32_t symbol,
                        const Expectation& expectation) {
  const auto distance = static_cast<std::int64_t>(take_distance(source.rare));
  if (distance == 0) {
    const std::uint32_t whole = source.rare.take(scalar_bits(coding.format));
    return expectation.mirrored ? mirrored(coding.format, whole) : whole;
  }
  CellPlace place;
  place.cell = symbol == symbol_above ? expectation.cell + cell_reach_up + distance
                                      : expectation.cell - cell_reach_down - distance;
  if (touches_zero(place.cell)) place.halvings = take_halvings(source.rare);
  place.raw = source.rare.take(raw_bits_of(coding.format, place.cell));
  return scalar_of(source, coding, place, expectation);
}

void put_cell(CellSink& sink, const CellCoding& coding, std::size_t lane, std::uint32_t bits,
              float mu, int sigma_class) {
  const Expectation expectation = expect(coding.range, mu, sigma_class);
  if (expectation.mirrored) bits = mirrored(coding.format, bits);
  bool too_far = false;
  const CellPlace place = place_of(coding.format, bits, expectation.grid, too_far);
  const Symbol to = symbol_of(place.cell, expectation.cell);
  CellSink::Coded coded{static_cast<std::uint8_t>(expectation.context),
                        static_cast<std::uint8_t>(to.symbol), static_cast<std::uint8_t>(lane)};
  if (too_far || to.distance != 0) {
    coded.symbol = put_tail(sink, coding, bits, expectation);
  } else {
    if (touches_zero(place.cell)) put_halvings(sink.rare, place.halvings);
    sink.raw.append(place.raw, raw_bits_of(coding.format, place.cell));
  }
  sink.coded.push_back(coded);
}

std::uint32_t take_cell(CellSource& source, const CellCoding& coding, std::size_t lane, float mu,
                        int sigma_class) {
  const Expectation expectation = expect(coding.range, mu, sigma_class);
  const std::uint32_t symbol = take_symbol(source, coding, lane, expectation.context);
  if (symbol >= symbol_above) return take_tail(source, coding, symbol, expectation);
  CellPlace place;
  place.cell = expectation.cell + static_cast<std::int64_t>(symbol) - cell_reach_down;
  if (touches_zero(place.cell)) place.halvings = take_halvings(source.rare);
  place.raw = source.raw.take(raw_bits_of(coding.format, place.cell));
  return scalar_of(source, coding, place, expectation);
}

void count_cell(DType dtype, std::uint32_t bits, float mu, int sigma_class, CellCounts& counts) {
  const ScalarFormat format = scalar_format(dtype);
  const Expectation expectation = expect(FloatRange(format), mu, sigma_class);
  if (expectation.mirrored) bits = mirrored(format, bits);
  bool too_far = false;
  const CellPlace place = place_of(format, bits, expectation.grid, too_far);
  const std::uint32_t symbol =
      too_far ? symbol_above : symbol_of(place.cell, expectation.cell).symbol;
  ++counts[expectation.context][symbol];
}

}  // namespace kvstrata::codec
