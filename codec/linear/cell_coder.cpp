#include "codec/linear/cell_coder.h"

#include <cstring>
#include <optional>

namespace kvstrata::codec {

namespace {

constexpr std::uint32_t state_min = 1U << 16;
constexpr std::size_t head_bytes = 8 + 4 * cell_lanes;
/// Distances of tails are below 2^distance_bits; that many zeros announce a whole scalar.
constexpr std::uint32_t distance_bits = 30;
/// So many zeros announce a byte with the number of halvings.
constexpr std::uint32_t halvings_in_unary = 16;

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

std::uint32_t load_u32(ByteView bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append_u32(ByteVector& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(value >> shift));
}

std::uint32_t scalar_bits(const ScalarFormat& format) {
  return format.bytes * 8;
}

}  // namespace

void CellEncoder::put(std::uint32_t bits, float mu, int sigma_class) {
  const Expectation expectation = expect(range_, mu, sigma_class);
  if (expectation.mirrored) bits = mirrored(format_, bits);
  bool too_far = false;
  const CellPlace place = place_of(format_, bits, expectation.grid, too_far);
  const Symbol to = symbol_of(place.cell, expectation.cell);
  const auto context = static_cast<std::uint8_t>(expectation.context);
  if (too_far || to.distance >> distance_bits != 0) {
    coded_.push_back({context, symbol_above});
    append_raw(0, distance_bits);
    append_raw(bits, scalar_bits(format_));
    return;
  }
  coded_.push_back({context, static_cast<std::uint8_t>(to.symbol)});
  if (to.symbol >= symbol_above) append_distance(to.distance);
  if (place.cell == 0 || place.cell == -1) {
    append_raw(0, std::min(place.halvings, halvings_in_unary));
    if (place.halvings < halvings_in_unary) {
      append_raw(1, 1);
    } else {
      append_raw(place.halvings, 8);
    }
  }
  append_raw(place.raw, raw_bits_of(format_, place.cell));
}

void CellEncoder::append_raw(std::uint32_t bits, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (raw_bit_count_ % 8 == 0) raw_.push_back(std::byte{0});
    raw_.back() |= static_cast<std::byte>((bits >> i & 1) << raw_bit_count_ % 8);
    ++raw_bit_count_;
  }
}

/// Elias-gamma: as many zeros as the number has bits after its first, a one, and those bits.
void CellEncoder::append_distance(std::uint64_t distance) {
  const auto width = static_cast<std::uint32_t>(std::bit_width(distance));
  append_raw(0, width - 1);
  append_raw(1, 1);
  append_raw(static_cast<std::uint32_t>(distance) & ((1U << (width - 1)) - 1), width - 1);
}

ByteVector CellEncoder::finish() {
  std::array<std::uint32_t, cell_lanes> states;
  states.fill(state_min);
  std::vector<std::uint16_t> words;  // the last first
  for (std::size_t i = coded_.size(); i-- > 0;) {
    const CellTables::Row& row = tables_.row(coded_[i].context);
    const std::uint32_t frequency = row.frequency[coded_[i].symbol];
    std::uint32_t& state = states[i % cell_lanes];
    if (state >= std::uint64_t{frequency} << (32 - cell_frequency_bits)) {
      words.push_back(static_cast<std::uint16_t>(state));
      state >>= 16;
    }
    state = (state / frequency << cell_frequency_bits) + state % frequency +
            row.begin[coded_[i].symbol];
  }
  ByteVector out;
  out.reserve(head_bytes + 2 * words.size() + raw_.size());
  append_u32(out, static_cast<std::uint32_t>(words.size()));
  append_u32(out, static_cast<std::uint32_t>(raw_.size()));
  for (const std::uint32_t state : states) append_u32(out, state);
  for (std::size_t i = words.size(); i-- > 0;) {
    out.push_back(static_cast<std::byte>(words[i]));
    out.push_back(static_cast<std::byte>(words[i] >> 8));
  }
  out.insert(out.end(), raw_.begin(), raw_.end());
  return out;
}

Result<CellDecoder> CellDecoder::open(DType dtype, const CellTables& tables, ByteView chain) {
  const Error broken(ErrorKind::corrupt, "cell chain: its lengths do not add up");
  if (chain.size() < head_bytes) return broken;
  const std::uint64_t words = load_u32(chain, 0), raw = load_u32(chain, 4);
  if (chain.size() != head_bytes + 2 * words + raw) return broken;
  CellDecoder decoder(dtype, tables);
  for (std::size_t lane = 0; lane < cell_lanes; ++lane) {
    decoder.states_[lane] = load_u32(chain, 8 + 4 * lane);
    decoder.failed_ |= decoder.states_[lane] < state_min;
  }
  decoder.words_ = chain.subspan(head_bytes, 2 * words);
  decoder.raw_ = chain.subspan(head_bytes + 2 * words);
  return decoder;
}

std::uint32_t CellDecoder::fail() {
  failed_ = true;
  return 0;
}

std::uint32_t CellDecoder::take_symbol(std::size_t context) {
  const CellTables::Row& row = tables_->row(context);
  std::uint32_t& state = states_[lane_];
  lane_ = (lane_ + 1) % cell_lanes;
  const std::uint32_t slot = state & (cell_frequency_sum - 1);
  std::uint32_t symbol = cell_symbols - 1;
  while (row.begin[symbol] > slot) --symbol;
  state = row.frequency[symbol] * (state >> cell_frequency_bits) + slot - row.begin[symbol];
  if (state < state_min) {
    if (word_ + 2 > words_.size()) return fail();
    state = state << 16 | std::to_integer<std::uint32_t>(words_[word_]) |
            std::to_integer<std::uint32_t>(words_[word_ + 1]) << 8;
    word_ += 2;
  }
  return symbol;
}

std::uint32_t CellDecoder::take_raw(std::uint32_t count) {
  if (raw_bit_ + count > raw_.size() * 8) return fail();
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < count; ++i, ++raw_bit_) {
    bits |= (std::to_integer<std::uint32_t>(raw_[raw_bit_ / 8]) >> raw_bit_ % 8 & 1) << i;
  }
  return bits;
}

/// 0: a whole scalar follows.
std::uint64_t CellDecoder::take_distance() {
  std::uint32_t zeros = 0;
  while (take_raw(1) == 0) {
    if (failed_ || ++zeros == distance_bits) return 0;
  }
  return std::uint64_t{1} << zeros | take_raw(zeros);
}

std::uint32_t CellDecoder::get(float mu, int sigma_class) {
  if (failed_) return 0;
  const Expectation expectation = expect(range_, mu, sigma_class);
  const std::uint32_t symbol = take_symbol(expectation.context);
  CellPlace place;
  place.cell = expectation.cell + static_cast<std::int64_t>(symbol) - cell_reach_down;
  if (symbol >= symbol_above) {
    const auto distance = static_cast<std::int64_t>(take_distance());
    if (failed_) return 0;
    if (distance == 0) {
      const std::uint32_t whole = take_raw(scalar_bits(format_));
      return expectation.mirrored ? mirrored(format_, whole) : whole;
    }
    place.cell = symbol == symbol_above ? expectation.cell + cell_reach_up + distance
                                        : expectation.cell - cell_reach_down - distance;
  }
  if (place.cell == 0 || place.cell == -1) {
    while (!failed_ && place.halvings < halvings_in_unary && take_raw(1) == 0) ++place.halvings;
    if (place.halvings == halvings_in_unary) place.halvings = take_raw(8);
  }
  place.raw = take_raw(raw_bits_of(format_, place.cell));
  std::uint32_t bits = 0;
  if (failed_ || !scalar_at(format_, place, expectation.grid, bits)) return fail();
  return expectation.mirrored ? mirrored(format_, bits) : bits;
}

bool CellDecoder::at_end() const {
  const bool states_back =
      std::ranges::all_of(states_, [](std::uint32_t state) { return state == state_min; });
  // Bits that fill the last byte are 0.
  const bool raw_used =
      (raw_bit_ + 7) / 8 == raw_.size() &&
      (raw_bit_ % 8 == 0 || std::to_integer<unsigned>(raw_.back()) >> raw_bit_ % 8 == 0);
  return !failed_ && states_back && word_ == words_.size() && raw_used;
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
