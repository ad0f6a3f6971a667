// Every vector kernel of the linear codec against the scalar one, on random and on extreme numbers,
// bit for bit; cells have tests of their own.
#include "codec/linear/linear_kernels.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "codec/linear/number.h"
#include "codec/linear/plain_floats.h"
#include "tests/base/seed.h"
#include "tests/codec/round_trip.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr std::size_t token_counts[] = {16, 32, 48, 64, 80, 256};
constexpr float guard = 12345.0F;

/// A row of numbers as they come: mostly near 1, some of any pattern.
std::vector<float> numbers(Random& random, std::size_t count) {
  constexpr float extremes[] = {0.0F,
                                -0.0F,
                                1e-42F,
                                3e38F,
                                -3e38F,
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> row(count);
  for (float& number : row) {
    number = static_cast<float>(random.below(1U << 20)) / (1U << 17) - 4;
    if (random.one_in(20)) number = extremes[random.below(std::size(extremes))];
  }
  return row;
}

std::vector<float> finite_numbers(Random& random, std::size_t count) {
  std::vector<float> row = numbers(random, count);
  for (float& number : row) number = tame(number);
  return row;
}

template <typename T>
std::vector<std::uint32_t> bits_of(const std::vector<T>& row) {
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

std::vector<std::int8_t> weights(Random& random, std::size_t count) {
  std::vector<std::int8_t> all(count);
  for (std::int8_t& weight : all) {
    weight = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    if (random.one_in(4)) weight = random.one_in(2) ? 127 : -127;
  }
  return all;
}

/// Packed inputs of int8, the largest ones among them.
std::vector<std::int32_t> packed(Random& random, std::size_t channels, std::size_t tokens) {
  std::vector<std::int32_t> all((channels + 3) / 4 * tokens);
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
        std::vector<std::vector<std::int32_t>> data;
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
        const auto before = numbers(random, rows * tokens + 1);
        compare_levels([&](const LinearKernels& kernels) {
          std::vector<float> expected = before;
          expected.back() = guard;
          kernels.map(products, scale.data(), bias.data(), expected.data());
          CHECK(expected.back() == guard);
          std::vector<float> joined = before;
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
      const auto errors = finite_numbers(random, channels * tokens);
      const auto by = numbers(random, channels), start = numbers(random, tokens);
      const auto other = numbers(random, tokens);
      const auto cosine = finite_numbers(random, tokens), sine = finite_numbers(random, tokens);
      std::vector<std::int32_t> steps(tokens);
      for (std::int32_t& step : steps) step = static_cast<std::int32_t>(random.below(81)) - 40;
      compare_levels([&](const LinearKernels& kernels) {
        std::vector<float> rows = start;
        kernels.learn(errors.data(), by, tokens, rows.data());
        std::vector<float> first(tokens), second(tokens), mu(tokens);
        std::vector<std::int32_t> classes(tokens);
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
      std::vector<std::uint32_t> row(tokens), other(tokens);
      for (std::uint32_t t = 0; t < tokens; ++t) row[t] = (first + t) % patterns;
      for (std::uint32_t& pattern : other)
        pattern = static_cast<std::uint32_t>(random.bits()) % patterns;
      const auto expected = numbers(random, tokens), second = numbers(random, tokens);
      const auto cosine = finite_numbers(random, tokens), sine = finite_numbers(random, tokens);
      const float per_sigma = std::ldexp(1.0F, static_cast<int>(random.below(40)) - 20);
      const std::uint32_t* const both[2] = {row.data(), other.data()};
      const float* const turned[2] = {expected.data(), second.data()};
      compare_levels([&](const LinearKernels& kernels) {
        std::vector<float> errors(2 * tokens);
        std::vector<std::uint32_t> units(tokens, 5);
        std::vector<std::int32_t> inputs(tokens, 0x7f7f7f7f);
        const Known known{.per_sigma = per_sigma,
                          .errors = {errors.data(), errors.data() + tokens},
                          .units = units.data(),
                          .mean = {0.25F, -3},
                          .input_scale = {24 * per_sigma, 7},
                          .inputs = {inputs.data(), inputs.data()},
                          .bytes = {0, 1}};
        kernels.know(format, row.data(), expected.data(), tokens, known);
        const std::vector<std::int32_t> of_one = inputs;
        kernels.know_pair(format, both, turned, {cosine.data(), sine.data()}, tokens, known);
        std::vector<std::int32_t> errors_packed((2 * tokens + 3) / 4 * 4);
        const std::vector<float> per_scale(tokens, 16.0F);
        kernels.pack_errors(errors.data(), 2, per_scale.data(), tokens, errors_packed.data());
        return std::tuple(bits_of(errors), units, of_one, inputs, errors_packed);
      });
    }
  }
}
