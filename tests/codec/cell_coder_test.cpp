// The cell coder: any pattern comes back whatever was expected, broken chains are noticed, and what
// is expected well costs what it must.
#include "codec/linear/cell_coder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/base/seed.h"
#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr DType float_dtypes[] = {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2};

struct Expected {
  float mu;
  int sigma_class;
};

CellTables flat_tables() {
  return CellTables::fit(CellCounts{});
}

std::uint32_t patterns_of(DType dtype) {
  return 1U << (8 * bytes_per_scalar(dtype));
}

/// Rows of what is expected, as kernels want them.
struct Rows {
  explicit Rows(const std::vector<Expected>& expected) {
    for (const Expected& one : expected) {
      mu.push_back(one.mu);
      sigma_class.push_back(one.sigma_class);
    }
    mu.resize(padded_tokens(mu.size()));
    sigma_class.resize(mu.size());
  }
  Guesses guesses(std::size_t first = 0) const {
    return {mu.data() + first, sigma_class.data() + first};
  }
  std::vector<float> mu;
  std::vector<std::int32_t> sigma_class;
};

/// All as one channel.
ByteVector encode(DType dtype, const CellTables& tables, std::vector<std::uint32_t> scalars,
                  const std::vector<Expected>& expected) {
  const Rows rows(expected);
  const std::size_t count = scalars.size();
  scalars.resize(padded_tokens(count));
  ByteVector chain;
  for (const SimdLevel level : all_levels) {
    CellEncoder encoder(dtype, tables, count, level);
    encoder.put(std::span(scalars).first(count), rows.guesses());
    const ByteVector of_level = encoder.finish();
    if (level == SimdLevel::scalar) chain = of_level;
    CHECK_MESSAGE((of_level == chain), "level " << static_cast<int>(level));
  }
  return chain;
}

/// The scalars of a chain, or nothing if something is wrong with it: the same at every level.
std::vector<std::uint32_t> decode(DType dtype, const CellTables& tables, ByteView chain,
                                  const std::vector<Expected>& expected) {
  const Rows rows(expected);
  std::vector<std::uint32_t> first;
  for (const SimdLevel level : all_levels) {
    std::vector<std::uint32_t> scalars(padded_tokens(expected.size()));
    auto decoder = CellDecoder::open(dtype, tables, chain, expected.size(), level);
    const bool whole = decoder &&
                       decoder->get(rows.guesses(), std::span(scalars).first(expected.size())) &&
                       decoder->at_end();
    scalars.resize(whole ? expected.size() : 0);
    if (level == SimdLevel::scalar) first = scalars;
    CHECK_MESSAGE((scalars == first), "level " << static_cast<int>(level));
  }
  return first;
}

float any_float(Random& random) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
}

/// A normal number of mean 0 and deviation 1, by adding twelve uniform ones.
float bell(Random& random) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<float>(random.below(1U << 20)) / (1U << 20);
  return sum;
}

}  // namespace

TEST_CASE("Every pattern comes back, wherever it was expected") {
  Random random(test_seed("cells"));
  const CellTables tables = flat_tables();
  const float special[] = {0.0F,
                           -0.0F,
                           1.0F,
                           -3.0F,
                           1e-30F,
                           1e30F,
                           1e-45F,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  for (const DType dtype : float_dtypes) {
    CAPTURE(to_string(dtype));
    std::vector<std::uint32_t> scalars;
    std::vector<Expected> expected;
    for (std::uint32_t bits = 0; bits < patterns_of(dtype); ++bits) {
      for (int i = 0; i < 3; ++i) {
        scalars.push_back(bits);
        const float mu = random.one_in(3) ? special[random.below(9)] : any_float(random);
        expected.push_back({mu, static_cast<int>(random.below(1200)) - 600});
      }
    }
    const ByteVector chain = encode(dtype, tables, scalars, expected);
    CHECK((decode(dtype, tables, chain, expected) == scalars));
  }
}

TEST_CASE("Scalars near what is expected come back at every width of the error") {
  Random random(test_seed("near cells"));
  const CellTables tables = flat_tables();
  for (const DType dtype : float_dtypes) {
    CAPTURE(to_string(dtype));
    std::vector<std::uint32_t> scalars;
    std::vector<Expected> expected;
    for (int sigma_class = -60; sigma_class < 40; ++sigma_class) {
      for (int i = 0; i < 200; ++i) {
        const float sigma = std::exp2(static_cast<float>(sigma_class) / sigma_steps);
        const float mu = bell(random) * (random.one_in(2) ? 1.0F : 100.0F * sigma);
        scalars.push_back(pattern_of(dtype, mu + sigma * bell(random)));
        expected.push_back({mu, sigma_class});
      }
    }
    const ByteVector chain = encode(dtype, tables, scalars, expected);
    CHECK((decode(dtype, tables, chain, expected) == scalars));
  }
}

TEST_CASE("A chain that is cut or changed in a bit is noticed, or gives other scalars") {
  Random random(test_seed("broken cells"));
  const CellTables tables = flat_tables();
  std::vector<std::uint32_t> scalars;
  std::vector<Expected> expected;
  for (int i = 0; i < 60; ++i) {
    const float mu = bell(random);
    scalars.push_back(pattern_of(DType::bf16, mu + 0.2F * bell(random)));
    expected.push_back({mu, -9});
  }
  const ByteVector chain = encode(DType::bf16, tables, scalars, expected);
  REQUIRE((decode(DType::bf16, tables, chain, expected) == scalars));
  for (std::size_t size = 0; size < chain.size(); ++size) {
    CHECK(decode(DType::bf16, tables, ByteView(chain).first(size), expected).empty());
  }
  for (std::size_t at = 0; at < chain.size() * 8; ++at) {
    ByteVector damaged = chain;
    damaged[at / 8] ^= static_cast<std::byte>(1U << at % 8);
    CHECK((decode(DType::bf16, tables, damaged, expected) != scalars));
  }
}

TEST_CASE("Random bytes are read within bounds") {
  Random random(test_seed("hostile cells"));
  const CellTables tables = flat_tables();
  const std::vector<Expected> expected(300, Expected{0.5F, -8});
  for (int round = 0; round < 300; ++round) {
    const std::size_t words = random.below(50), raw = random.below(50), rare = random.below(50);
    ByteVector chain(12 + 4 * cell_lanes_few + 2 * words + raw + rare);
    for (std::byte& byte : chain) byte = static_cast<std::byte>(random.bits());
    for (std::size_t i = 0; i < 12; ++i) chain[i] = std::byte{0};
    chain[0] = static_cast<std::byte>(words);
    chain[4] = static_cast<std::byte>(raw);
    chain[8] = static_cast<std::byte>(rare);
    for (const DType dtype : float_dtypes) decode(dtype, tables, chain, expected);
  }
}

TEST_CASE("Channels of any length follow each other in a chain") {
  Random random(test_seed("channels of cells"));
  const CellTables tables = flat_tables();
  for (std::size_t tokens = 1; tokens < 70; ++tokens) {
    CAPTURE(tokens);
    constexpr std::size_t channels = 5;
    std::vector<Expected> expected(tokens);
    for (Expected& one : expected) one = {bell(random), static_cast<int>(random.below(40)) - 30};
    const Rows rows(expected);
    std::vector<std::uint32_t> scalars(channels * padded_tokens(tokens));
    for (std::uint32_t& bits : scalars) bits = pattern_of(DType::bf16, bell(random));
    const auto channel = [&](std::vector<std::uint32_t>& of, std::size_t c) {
      return std::span(of).subspan(c * padded_tokens(tokens), tokens);
    };
    ByteVector chain;
    for (const SimdLevel level : all_levels) {
      CellEncoder encoder(DType::bf16, tables, channels * tokens, level);
      for (std::size_t c = 0; c < channels; ++c) encoder.put(channel(scalars, c), rows.guesses());
      const ByteVector of_level = encoder.finish();
      if (level == SimdLevel::scalar) chain = of_level;
      CHECK((of_level == chain));
      auto decoder = CellDecoder::open(DType::bf16, tables, chain, channels * tokens, level);
      REQUIRE(decoder);
      std::vector<std::uint32_t> decoded(scalars.size());
      for (std::size_t c = 0; c < channels; ++c) {
        CHECK(decoder->get(rows.guesses(), channel(decoded, c)));
        CHECK(std::ranges::equal(channel(decoded, c), channel(scalars, c)));
      }
      CHECK(decoder->at_end());
    }
  }
}

TEST_CASE("What is expected well costs little more than the density of its error") {
  Random random(test_seed("cost of cells"));
  for (const auto& [name, spread] : {std::pair{std::string("wide"), 1.0F}, {"narrow", 0.01F}}) {
    CAPTURE(name);
    constexpr std::size_t count = 60'000;
    std::vector<std::uint32_t> scalars;
    std::vector<Expected> expected;
    double ideal_bits = 0;
    CellCounts counts{};
    for (std::size_t i = 0; i < 2 * count; ++i) {
      const int sigma_class = static_cast<int>(random.below(8)) - 8;
      const float sigma = spread * std::exp2(static_cast<float>(sigma_class) / sigma_steps);
      const int coded_class = sigma_class + (spread == 1.0F ? 0 : -27);  // 2^(-27/4) is 0.0093
      const float mu = 2 * bell(random), error = sigma * bell(random);
      const std::uint32_t bits = pattern_of(DType::bf16, mu + error);
      if (i < count) {
        count_cell(DType::bf16, bits, mu, coded_class, counts);
        continue;
      }
      scalars.push_back(bits);
      expected.push_back({mu, coded_class});
      const float x = std::bit_cast<float>(bits << 16);
      const float bin = std::bit_cast<float>((bits & 0x7f80U) << 16) / 128;
      const double z = (static_cast<double>(x) - mu) / sigma;
      // The mean of the density over the bin, for bins as wide as sigma.
      const double half = bin / sigma / 2 / std::sqrt(2.0);
      const double mass =
          0.5 * (std::erf(z / std::sqrt(2.0) + half) - std::erf(z / std::sqrt(2.0) - half));
      ideal_bits -= std::log2(std::max(mass, 1e-9));
    }
    const CellTables tables = CellTables::fit(counts);
    const ByteVector chain = encode(DType::bf16, tables, scalars, expected);
    CHECK((decode(DType::bf16, tables, chain, expected) == scalars));
    const double bits = 8.0 * static_cast<double>(chain.size()) / count;
    MESSAGE(name << ": " << bits << " bits, ideal " << ideal_bits / count);
    CHECK(bits < ideal_bits / count + 0.06);
  }
}

TEST_CASE("Tables are read as they were written, and nothing else is") {
  CellCounts counts{};
  for (std::size_t c = 0; c < cell_contexts; ++c) counts[c][c % cell_symbols] = c * 1000;
  const CellTables tables = CellTables::fit(counts);
  const ByteVector bytes = tables.serialize();
  const auto parsed = CellTables::parse(bytes);
  REQUIRE(parsed);
  CHECK((parsed->serialize() == bytes));
  CHECK_FALSE(CellTables::parse(ByteView(bytes).first(bytes.size() - 1)));
  ByteVector wrong = bytes;
  wrong[0] ^= std::byte{1};
  CHECK_FALSE(CellTables::parse(wrong));
  wrong = bytes;
  wrong[0] = wrong[1] = std::byte{0};
  CHECK_FALSE(CellTables::parse(wrong));
}
