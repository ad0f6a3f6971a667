// Every vector kernel of the linear codec against the scalar one, on random and on extreme numbers,
// bit for bit; all memory ends where it may not be touched any more. Cells have tests of their own,
// but for that.
#include "codec/linear/linear_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "codec/linear/number.h"
#include "codec/linear/plain_floats.h"
#include "tests/base/seed.h"
#include "tests/codec/guarded_buffer.h"
#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr std::size_t token_counts[] = {16, 32, 48, 64, 80, 256};

/// A row of numbers as they come: mostly near 1, some of any pattern.
GuardedVector<float> numbers(Random& random, std::size_t count) {
  constexpr float extremes[] = {0.0F,
                                -0.0F,
                                1e-42F,
                                3e38F,
                                -3e38F,
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
  GuardedVector<float> row(count);
  for (float& number : row) {
    number = static_cast<float>(random.below(1U << 20)) / (1U << 17) - 4;
    if (random.one_in(20)) number = extremes[random.below(std::size(extremes))];
  }
  return row;
}

GuardedVector<float> finite_numbers(Random& random, std::size_t count) {
  GuardedVector<float> row = numbers(random, count);
  for (float& number : row) number = tame(number);
  return row;
}

template <typename T>
std::vector<std::uint32_t> bits_of(const GuardedVector<T>& row) {
  std::vector<std::uint32_t> bits;
  for (const T number : row) {
    const auto pattern = std::bit_cast<std::uint32_t>(number);
    // What is no number is none, whichever it is.
    const bool no_number = std::is_same_v<T, float> && (pattern & 0x7fffffff) > 0x7f800000;
    bits.push_back(no_number ? 0x7fc00000 : pattern);
  }
  return bits;
}

/// Runs `compute(kernels)` with those of every level and compares what it returns.
template <typename Compute>
void compare_levels(Compute&& compute) {
  const PlainFloats plain;
  const auto expected = compute(scalar_linear_kernels);
  for (const SimdLevel level : all_levels) {
    CHECK_MESSAGE((compute(linear_kernels_of(level)) == expected),
                  "level " << static_cast<int>(level));
  }
}

GuardedVector<std::int8_t> weights(Random& random, std::size_t count) {
  GuardedVector<std::int8_t> all(count);
  for (std::int8_t& weight : all) {
    weight = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    if (random.one_in(4)) weight = random.one_in(2) ? 127 : -127;
  }
  return all;
}

/// Packed inputs of int8, the largest ones among them.
GuardedVector<std::int32_t> packed(Random& random, std::size_t channels, std::size_t tokens) {
  GuardedVector<std::int32_t> all((channels + 3) / 4 * tokens);
  for (std::int32_t& four : all) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      const int value = random.one_in(4) ? 127 : static_cast<int>(random.below(255)) - 127;
      bits = bits << 8 | (static_cast<std::uint32_t>(random.one_in(3) ? -value : value) & 0xff);
    }
    four = static_cast<std::int32_t>(bits);
  }
  return all;
}

/// Channels of a chain, and where they are expected: mostly there, some of them anywhere.
struct Chain {
  static constexpr std::size_t channels = 3;

  Chain(Random& random, DType type, std::size_t token_count, std::size_t many)
      : dtype(type), tokens(token_count), lanes(cell_lanes_of(many)) {
    for (std::size_t c = 0; c < channels; ++c) {
      mu.push_back(numbers(random, padded_tokens(tokens)));
      sigma_class.emplace_back(padded_tokens(tokens));
      patterns.emplace_back(padded_tokens(tokens));
      for (std::size_t t = 0; t < padded_tokens(tokens); ++t) {
        sigma_class[c][t] = static_cast<std::int32_t>(random.below(40)) - 30;
        const bool anywhere = random.one_in(10) || !std::isfinite(mu[c][t]);
        patterns[c][t] = anywhere ? static_cast<std::uint32_t>(random.bits())
                                  : pattern_of(dtype, mu[c][t] * (random.one_in(3) ? 1.01F : 1));
        patterns[c][t] &= (1U << (8 * bytes_per_scalar(dtype))) - 1;
      }
    }
    ByteVector first;
    for (const SimdLevel level : all_levels) {
      CellEncoder encoder(dtype, tables.front(), many, level);
      for (std::size_t c = 0; c < channels; ++c) {
        encoder.put(std::span(patterns[c]).first(tokens), guesses(c));
      }
      bytes = encoder.finish();
      if (level == SimdLevel::scalar) first = bytes;
      CHECK((bytes == first));
    }
  }

  Guesses guesses(std::size_t channel) const {
    return {mu[channel].data(), sigma_class[channel].data()};
  }

  DType dtype;
  std::size_t tokens, lanes;
  GuardedVector<CellTables> tables{1, CellTables::fit(CellCounts{})};
  std::vector<GuardedVector<float>> mu;
  std::vector<GuardedVector<std::int32_t>> sigma_class;
  std::vector<GuardedVector<std::uint32_t>> patterns;
  ByteVector bytes;
};

/// The streams of a chain, or their first parts, each with stream_padding behind it and no more.
struct Streams {
  Streams(const Chain& chain, Random* cut) {
    const std::byte* from = chain.bytes.data() + 12;
    source.lanes = chain.lanes;
    std::memcpy(source.states.data(), from, 4 * chain.lanes);
    from += 4 * chain.lanes;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t scalar_bytes = i == 0 ? 2 : 1;
      const std::size_t length = load_le<std::uint32_t>(chain.bytes.data() + 4 * i);
      size[i] = scalar_bytes * (cut == nullptr ? length : cut->below(length + 1));
      bytes[i] = GuardedVector<std::uint8_t>(size[i] + stream_padding, 0x5a);
      std::memcpy(bytes[i].data(), from, size[i]);
      from += scalar_bytes * length;
    }
    source.words = reinterpret_cast<const std::uint16_t*>(bytes[0].data());
    source.words_end = source.words + size[0] / 2;
    source.raw = BitReader(bytes[1].data(), size[1]);
    source.rare = BitReader(bytes[2].data(), size[2]);
  }

  std::array<GuardedVector<std::uint8_t>, 3> bytes;
  std::array<std::size_t, 3> size{};
  CellSource source;
};

}  // namespace

TEST_CASE("Sums of products are the same at every level, up to the largest") {
  Random random(test_seed("linear products"));
  for (const std::size_t tokens : token_counts) {
    for (const std::size_t channels : {4U, 12U, 64U, 100U}) {
      for (const std::size_t inputs : {0U, 1U, 3U}) {
        CAPTURE(tokens);
        CAPTURE(channels);
        const std::size_t rows = 1 + random.below(11), stride = inputs * channels;
        const auto all_weights = weights(random, rows * stride);
        std::vector<GuardedVector<std::int32_t>> data;
        std::vector<const std::int32_t*> pointers;
        for (std::size_t i = 0; i < inputs; ++i) data.push_back(packed(random, channels, tokens));
        for (const auto& one : data) pointers.push_back(one.data());
        const Products products{.weights = all_weights.data(),
                                .row_stride = stride,
                                .rows = rows,
                                .inputs = pointers,
                                .channels = channels,
                                .tokens = tokens};
        const auto scale = numbers(random, rows), bias = numbers(random, rows);
        const auto token_scale = finite_numbers(random, tokens);
        const auto before = numbers(random, rows * tokens);
        compare_levels([&](const LinearKernels& kernels) {
          GuardedVector<float> expected = before, joined = before;
          kernels.map(products, scale.data(), bias.data(), expected.data());
          kernels.join(products, scale.data(), token_scale.data(), joined.data());
          expected.insert(expected.end(), joined.begin(), joined.end());
          return bits_of(expected);
        });
      }
    }
  }
}

TEST_CASE("Learning, turning and guessing are the same at every level") {
  Random random(test_seed("linear rows"));
  for (const std::size_t tokens : token_counts) {
    for (int round = 0; round < 20; ++round) {
      CAPTURE(tokens);
      const std::size_t channels = random.below(64);
      // Somewhere, even if there are none.
      const auto errors = finite_numbers(random, std::max<std::size_t>(channels, 1) * tokens);
      const auto by = numbers(random, channels), start = numbers(random, tokens);
      const auto other = numbers(random, tokens);
      const auto cosine = finite_numbers(random, tokens), sine = finite_numbers(random, tokens);
      GuardedVector<std::int32_t> steps(tokens);
      for (std::int32_t& step : steps) step = static_cast<std::int32_t>(random.below(81)) - 40;
      compare_levels([&](const LinearKernels& kernels) {
        GuardedVector<float> rows = start;
        kernels.learn(errors.data(), by, tokens, rows.data());
        GuardedVector<float> first(tokens), second(tokens), mu(tokens);
        GuardedVector<std::int32_t> classes(tokens);
        kernels.turn(start.data(), other.data(), {cosine.data(), sine.data()}, tokens, first.data(),
                     second.data());
        kernels.guess(start.data(), steps.data(), 0.37F, -11, tokens, mu.data(), classes.data());
        for (const auto& more : {first, second, mu}) {
          rows.insert(rows.end(), more.begin(), more.end());
        }
        return std::pair(bits_of(rows), classes);
      });
    }
  }
}

TEST_CASE("What is known of every pattern is the same at every level") {
  Random random(test_seed("linear knowledge"));
  constexpr std::size_t tokens = 64;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    const ScalarFormat format = scalar_format(dtype);
    const std::uint32_t patterns = 1U << (8 * format.bytes);
    for (std::uint32_t first = 0; first < patterns; first += tokens) {
      GuardedVector<std::uint32_t> row(tokens), other(tokens);
      for (std::uint32_t t = 0; t < tokens; ++t) row[t] = (first + t) % patterns;
      for (std::uint32_t& pattern : other)
        pattern = static_cast<std::uint32_t>(random.bits()) % patterns;
      const auto expected = numbers(random, tokens), second = numbers(random, tokens);
      const auto cosine = finite_numbers(random, tokens), sine = finite_numbers(random, tokens);
      const float per_sigma = std::ldexp(1.0F, static_cast<int>(random.below(40)) - 20);
      const std::uint32_t* const both[2] = {row.data(), other.data()};
      const float* const turned[2] = {expected.data(), second.data()};
      compare_levels([&](const LinearKernels& kernels) {
        GuardedVector<float> errors(2 * tokens);
        GuardedVector<std::uint32_t> units(tokens, 5);
        GuardedVector<std::int32_t> inputs(tokens, 0x7f7f7f7f);
        const Known known{.per_sigma = per_sigma,
                          .errors = {errors.data(), errors.data() + tokens},
                          .units = units.data(),
                          .mean = {0.25F, -3},
                          .input_scale = {24 * per_sigma, 7},
                          .inputs = {inputs.data(), inputs.data()},
                          .bytes = {0, 1}};
        kernels.know(format, row.data(), expected.data(), tokens, known);
        const GuardedVector<std::int32_t> of_one = inputs;
        kernels.know_pair(format, both, turned, {cosine.data(), sine.data()}, tokens, known);
        GuardedVector<std::int32_t> errors_packed(tokens);
        const GuardedVector<float> per_scale(tokens, 16.0F);
        kernels.pack_errors(errors.data(), 2, per_scale.data(), tokens, errors_packed.data());
        return std::tuple(bits_of(errors), units, of_one, inputs, errors_packed);
      });
    }
  }
}

TEST_CASE("Cells are read and written within their rows, and streams within their padding") {
  Random random(test_seed("guarded cells"));
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    for (const std::size_t tokens : {1U, 15U, 16U, 17U, 33U, 96U, 256U}) {
      for (const std::size_t many : {std::size_t{1}, std::size_t{1} << 20}) {
        CAPTURE(to_string(dtype));
        CAPTURE(tokens);
        const Chain chain(random, dtype, tokens, many);
        const CellCoding coding(dtype, chain.tables.front());
        for (int round = 0; round < 10; ++round) {
          const Streams streams(chain, round == 0 ? nullptr : &random);
          compare_levels([&](const LinearKernels& kernels) {
            CellSource source = streams.source;
            std::vector<std::uint32_t> all;
            for (std::size_t c = 0; c < Chain::channels && !source.failed; ++c) {
              GuardedVector<std::uint32_t> patterns(padded_tokens(tokens));
              kernels.decode(source, coding, chain.guesses(c), std::span(patterns).first(tokens));
              source.failed |= source.raw.overrun() || source.rare.overrun();
              const auto end = patterns.begin() + static_cast<std::ptrdiff_t>(tokens);
              if (round == 0) CHECK(std::equal(patterns.begin(), end, chain.patterns[c].begin()));
              all.insert(all.end(), patterns.begin(), end);
            }
            CHECK((round > 0 || !source.failed));
            return std::pair(source.failed, source.failed ? std::vector<std::uint32_t>{} : all);
          });
        }
      }
    }
  }
}
