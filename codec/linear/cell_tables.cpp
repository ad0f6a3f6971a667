#include "codec/linear/cell_tables.h"

#include <algorithm>
#include <numeric>

namespace kvstrata::codec {

namespace {

/// What a context is worth before anything was counted: a triangle, wide as its class says.
std::uint64_t prior_weight(std::size_t context, std::size_t symbol) {
  const int wide = class_of(context);  // 4 log2(sigma / D) - 3
  if (symbol >= symbol_above) return 1;
  // Half the base of the triangle, in cells.
  const int half = wide >= 0 ? 5 + 2 * (wide + 1) : 4;
  const int away = std::abs(static_cast<int>(symbol) - static_cast<int>(cell_reach_down));
  return static_cast<std::uint64_t>(std::max(1, 8 * (half - away)));
}

/// Shares of cell_frequency_sum in proportion, none of them 0; what rounding leaves goes to the
/// largest.
std::array<std::uint16_t, cell_symbols> shares(
    const std::array<std::uint64_t, cell_symbols>& weight) {
  const std::uint64_t total = std::accumulate(weight.begin(), weight.end(), std::uint64_t{0});
  std::array<std::uint16_t, cell_symbols> share{};
  std::uint32_t sum = 0;
  for (std::size_t s = 0; s < cell_symbols; ++s) {
    const std::uint64_t room = cell_frequency_sum - cell_symbols;
    share[s] = static_cast<std::uint16_t>(1 + weight[s] * room / total);
    sum += share[s];
  }
  const auto largest = std::ranges::max_element(share);
  *largest = static_cast<std::uint16_t>(*largest + (cell_frequency_sum - sum));
  return share;
}

}  // namespace

CellTables CellTables::fit(const CellCounts& counts) {
  constexpr std::uint64_t count_max = std::uint64_t{1} << 40;  // so that products have room
  CellTables tables;
  for (std::size_t c = 0; c < cell_contexts; ++c) {
    std::array<std::uint64_t, cell_symbols> weight{};
    for (std::size_t s = 0; s < cell_symbols; ++s) {
      weight[s] = std::min(counts[c][s], count_max) * 16 + prior_weight(c, s);
    }
    tables.set_row(c, shares(weight));
  }
  return tables;
}

Result<CellTables> CellTables::parse(ByteView bytes) {
  const auto corrupt = [](const char* what) {
    return Error(ErrorKind::corrupt, std::string("cell tables: ") + what);
  };
  if (bytes.size() != serialized_bytes) return corrupt("length");
  CellTables tables;
  std::size_t at = 0;
  for (std::size_t c = 0; c < cell_contexts; ++c) {
    std::uint32_t sum = 0;
    std::array<std::uint16_t, cell_symbols> row{};
    for (std::uint16_t& frequency : row) {
      frequency = static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[at]) |
                                             std::to_integer<unsigned>(bytes[at + 1]) << 8);
      at += 2;
      if (frequency == 0) return corrupt("a symbol of frequency 0");
      sum += frequency;
    }
    if (sum != cell_frequency_sum) return corrupt("frequencies do not sum to 4096");
    tables.set_row(c, row);
  }
  return tables;
}

ByteVector CellTables::serialize() const {
  ByteVector bytes;
  bytes.reserve(serialized_bytes);
  for (const Row& row : rows_) {
    for (const Entry entry : row) {
      bytes.push_back(static_cast<std::byte>(entry.frequency));
      bytes.push_back(static_cast<std::byte>(entry.frequency >> 8));
    }
  }
  return bytes;
}

void CellTables::set_row(std::size_t context,
                         const std::array<std::uint16_t, cell_symbols>& frequencies) {
  std::uint16_t begin = 0;
  for (std::size_t s = 0; s < cell_symbols; ++s) {
    rows_[context][s] = {frequencies[s], begin};
    begin = static_cast<std::uint16_t>(begin + frequencies[s]);
  }
}

}  // namespace kvstrata::codec
