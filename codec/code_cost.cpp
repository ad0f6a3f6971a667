#include "codec/code_cost.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "codec/static_tables.h"
#include "kvstrata/check.h"

namespace kvstrata::codec {

namespace {

/// log2(256 / frequency) in 16.16, by squaring: each square's overflow is the next bit.
constexpr std::uint32_t log2_cost(std::uint32_t frequency) {
  std::uint32_t whole = 0;
  while (frequency >> (whole + 1) != 0) ++whole;
  std::uint64_t mantissa = std::uint64_t{frequency} << (31 - whole);  // [1, 2) in units of 2^-31
  std::uint32_t fraction = 0;
  for (int bit = 15; bit >= 0; --bit) {
    mantissa = mantissa * mantissa >> 31;
    if (mantissa >> 32 != 0) {
      mantissa >>= 1;
      fraction |= 1U << bit;
    }
  }
  return (8U << 16) - (whole << 16 | fraction);
}

constexpr auto symbol_costs = [] {
  std::array<std::uint32_t, frequency_sum + 1> costs{};
  for (std::uint32_t f = 1; f <= frequency_sum; ++f) costs[f] = log2_cost(f);
  return costs;
}();
static_assert(symbol_costs[256] == 0 && symbol_costs[1] == 8U << 16);

/// What a symbol of `count` occurrences costs with `frequency`.
std::uint64_t total_cost(std::uint64_t count, std::uint32_t frequency) {
  return count * symbol_costs[frequency];
}

/// Frequencies that sum to 256, each at least 1, of near least total cost.
std::vector<std::uint32_t> quantise(std::span<const std::uint64_t> counts) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  std::vector<std::uint32_t> frequency;
  for (const std::uint64_t count : counts) {
    const std::uint64_t share = total == 0 ? 1 : (count * frequency_sum + total / 2) / total;
    frequency.push_back(static_cast<std::uint32_t>(std::max<std::uint64_t>(share, 1)));
  }
  std::uint32_t sum = std::accumulate(frequency.begin(), frequency.end(), 0U);
  while (sum != frequency_sum) {
    const bool grow = sum < frequency_sum;
    std::size_t best = 0;
    std::uint64_t best_gain = 0, best_loss = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint64_t now = total_cost(counts[i], frequency[i]);
      if (grow) {
        const std::uint64_t gain = now - total_cost(counts[i], frequency[i] + 1);
        if (i == 0 || gain > best_gain) best = i, best_gain = gain;
      } else if (frequency[i] > 1) {
        const std::uint64_t loss = total_cost(counts[i], frequency[i] - 1) - now;
        if (loss < best_loss) best = i, best_loss = loss;
      }
    }
    frequency[best] += grow ? 1U : ~0U;
    sum += grow ? 1U : ~0U;
  }
  return frequency;
}

struct Candidate {
  TableRecord record{};
  std::uint64_t cost = std::numeric_limits<std::uint64_t>::max();
};

/// Bins by falling count, then rising number; those that occur, or bin 0.
std::vector<std::size_t> common_bins(const KeyCounts& counts) {
  std::vector<std::size_t> bins;
  for (std::size_t bin = 0; bin < key_bins; ++bin) {
    if (counts[bin] != 0) bins.push_back(bin);
  }
  if (bins.empty()) bins.push_back(0);
  std::ranges::sort(bins, [&](std::size_t a, std::size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  return bins;
}

/// The table with `named` symbols for the first of `bins` and escapes for the rest.
TableRecord make_record(const KeyCounts& counts, std::span<const std::size_t> bins,
                        std::size_t named, bool sign_coded) {
  std::vector<std::uint64_t> symbol_counts;
  for (const std::size_t bin : bins.first(named)) symbol_counts.push_back(counts[bin]);
  std::array<std::uint64_t, 2> escapes{};
  for (const std::size_t bin : bins.subspan(named))
    escapes[sign_coded ? bin / 256 : 1] += counts[bin];
  if (sign_coded) symbol_counts.push_back(escapes[0]);
  symbol_counts.push_back(escapes[1]);

  const std::vector<std::uint32_t> frequency = quantise(symbol_counts);
  TableRecord record{};
  record.sign_coded = sign_coded ? 1 : 0;
  for (std::size_t s = 0; s < named; ++s) {
    record.frequency[s] = static_cast<std::uint8_t>(frequency[s]);
    record.key[s] = static_cast<std::uint8_t>(bins[s]);
    if (sign_coded && bins[s] >= 256) record.sign_mask |= static_cast<std::uint16_t>(1U << s);
  }
  record.frequency[15] = static_cast<std::uint8_t>(frequency.back());
  if (sign_coded) {
    record.frequency[14] = static_cast<std::uint8_t>(frequency[named]);
    record.sign_mask |= 0x8000;
  }
  return record;
}

Candidate best_of(const KeyCounts& counts, bool sign_coded) {
  Candidate best;
  const std::vector<std::size_t> bins = common_bins(counts);
  const std::size_t named_max = std::min<std::size_t>(bins.size(), first_escape(sign_coded));
  for (std::size_t named = 1; named <= named_max; ++named) {
    Candidate tried{.record = make_record(counts, bins, named, sign_coded), .cost = 0};
    const CodeCost cost = CodeCost::of(tried.record);
    for (const std::size_t bin : bins) tried.cost += counts[bin] * cost.of_bin[bin];
    if (tried.cost < best.cost) best = tried;
  }
  return best;
}

}  // namespace

std::uint32_t symbol_cost(std::uint32_t frequency) {
  KV_CHECK(frequency >= 1 && frequency <= frequency_sum, "no such frequency");
  return symbol_costs[frequency];
}

CodeCost CodeCost::of(const TableRecord& record) {
  const bool sign_coded = record.sign_coded != 0;
  const std::uint32_t sign_cost = sign_coded ? 0 : cost_one_bit;
  const std::array<std::uint32_t, 2> escape{
      symbol_costs[record.frequency[first_escape(sign_coded)]] + 8 * cost_one_bit + sign_cost,
      symbol_costs[record.frequency[15]] + 8 * cost_one_bit + sign_cost};
  CodeCost cost;
  for (std::size_t bin = 0; bin < key_bins; ++bin) cost.of_bin[bin] = escape[bin / 256];
  for (std::size_t s = 0; s < first_escape(sign_coded); ++s) {
    if (record.frequency[s] == 0) continue;
    const std::uint32_t symbol = symbol_costs[record.frequency[s]] + sign_cost;
    const std::size_t sign = record.sign_mask >> s & 1;
    cost.of_bin[sign * 256 + record.key[s]] = symbol;
    if (!sign_coded) cost.of_bin[256U + record.key[s]] = symbol;
  }
  return cost;
}

TableRecord build_table(const KeyCounts& counts, const ScalarFormat& format) {
  KeyCounts folded{};
  for (std::size_t bin = 0; bin < key_bins; ++bin) folded[bin % 256] += counts[bin];
  const Candidate raw_sign = best_of(folded, false);
  if (format.sign_bits == 0) return raw_sign.record;
  const Candidate coded_sign = best_of(counts, true);
  return coded_sign.cost < raw_sign.cost ? coded_sign.record : raw_sign.record;
}

}  // namespace kvstrata::codec
