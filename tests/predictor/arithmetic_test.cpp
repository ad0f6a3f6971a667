// The numbers of doc/predictor-arithmetic.md: what they are near, where their edges lie, and golden
// sums of their bits, which must be the same for every compiler and machine.
#include "predictor/arithmetic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/checksum.h"

using namespace kvstrata;
using namespace kvstrata::predictor;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Every 971st number of those from -0 down to -100.
std::vector<float> negative_numbers() {
  std::vector<float> numbers;
  for (std::uint32_t bits = 0x80000000; bits <= std::bit_cast<std::uint32_t>(-100.0F);
       bits += 971) {
    numbers.push_back(std::bit_cast<float>(bits));
  }
  return numbers;
}

std::uint64_t sum_of_bits(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return xxh3(bytes);
}

}  // namespace

TEST_CASE("exp of negative numbers is within 1.4 of 2^-24, and never subnormal") {
  double worst = 0;
  std::vector<float> values;
  for (const float x : negative_numbers()) {
    const float y = exp_of_negative(x);
    const double exact = std::exp(std::max(static_cast<double>(x), -87.0));
    worst = std::max(worst, std::fabs(static_cast<double>(y) - exact) / exact);
    values.push_back(y);
  }
  CHECK(worst < 1.4 * 0x1p-24);
  CHECK(std::ranges::min(values) >= std::numeric_limits<float>::min());
  CHECK(std::ranges::max(values) == 1);
  CHECK(exp_of_negative(0) == 1);
  CHECK(exp_of_negative(-infinity) == exp_of_negative(-87));
  CHECK(exp_of_negative(not_a_number) == exp_of_negative(-87));
  CHECK(sum_of_bits(values) == 721293540878063274U);
}

TEST_CASE("silu is near z / (1 + e^-z)") {
  std::vector<float> values;
  for (float z = -30; z <= 30; z += 0.0078125F) {
    const double exact = static_cast<double>(z) / (1 + std::exp(-static_cast<double>(z)));
    CHECK(std::fabs(static_cast<double>(silu(z)) - exact) <= std::fabs(exact) * 0x1p-21);
    values.push_back(silu(z));
  }
  CHECK(silu(-200) == doctest::Approx(0));
  CHECK(silu(200) == 200);
  CHECK(sum_of_bits(values) == 6477452038443941953U);
}

TEST_CASE("Squares are summed in 32 lanes and a tree") {
  CHECK(sum_of_squares({}) == 0);
  // One after the other all ones would vanish beside 2^24; in the tree the first does, the others
  // come as 2, 4, 8 and 16.
  std::vector<float> numbers(32, 1);
  numbers[0] = 4096;
  CHECK(sum_of_squares(numbers) == 4096.0F * 4096 + 30);
  std::vector<float> one_lane(32 * 3);
  one_lane[0] = 4096;
  one_lane[32] = one_lane[64] = 1;
  CHECK(sum_of_squares(one_lane) == 4096.0F * 4096);
}

TEST_CASE("Codes are the nearest integers, ties to even, and tails are zero") {
  bool finite = true;
  std::vector<std::int16_t> codes(8, 99);
  const std::vector<float> v{127, 0.5F, 1.5F, -2.5F, -126.6F};
  CHECK(quantise(v, top_of_8_bits, codes, finite) == 1);
  CHECK(codes == std::vector<std::int16_t>{127, 0, 2, -2, -127, 0, 0, 0});
  CHECK(finite);
}

TEST_CASE(
    "Groups that are too small have scale 0, and no number is refused but those that are none") {
  bool finite = true;
  std::vector<std::int16_t> codes(2);
  CHECK(quantise(std::vector<float>{0x1p-101F, -0x1p-120F}, top_of_13_bits, codes, finite) == 0);
  CHECK(codes == std::vector<std::int16_t>{0, 0});
  CHECK(quantise({}, top_of_13_bits, codes, finite) == 0);
  const float largest = std::numeric_limits<float>::max();
  CHECK(quantise(std::vector<float>{largest, -largest}, top_of_13_bits, codes, finite) ==
        largest / 4095);
  CHECK(codes == std::vector<std::int16_t>{4095, -4095});
  CHECK(quantise(std::vector<float>{0x1p-100F, 0}, top_of_13_bits, codes, finite) ==
        0x1p-100F / 4095);
  CHECK(finite);
  for (const float none : {infinity, -infinity, not_a_number}) {
    bool good = true;
    CHECK(quantise(std::vector<float>{1, none}, top_of_13_bits, codes, good) == 0);
    CHECK(codes == std::vector<std::int16_t>{0, 0});
    CHECK_FALSE(good);
  }
}

TEST_CASE("A head that is turned and turned back is nearly the same, channels beyond it the same") {
  std::vector<float> head{1, 2, 3, 4, 5};
  const std::vector<float> cosines{0.6F, 0.8F}, sines{0.8F, -0.6F};
  turn(head, cosines, sines);
  CHECK(head[0] == doctest::Approx(0.6 * 1 - 0.8 * 3));
  CHECK(head[2] == doctest::Approx(0.6 * 3 + 0.8 * 1));
  CHECK(head[1] == doctest::Approx(0.8 * 2 + 0.6 * 4));
  turn(head, cosines, sines, -1);
  for (std::size_t j = 0; j < head.size(); ++j)
    CHECK(head[j] == doctest::Approx(static_cast<double>(j) + 1));
  CHECK(head[4] == 5);
}

TEST_CASE("A norm has the size of its weights") {
  const std::vector<float> v{3, -4}, weight{1, 2};
  std::vector<float> out(2);
  CHECK(norm(v, 0, weight, out));
  CHECK(out[0] == doctest::Approx(3 / std::sqrt(12.5)));
  CHECK(out[1] == doctest::Approx(-8 / std::sqrt(12.5)));
  CHECK_FALSE(norm(std::vector<float>{0, 0}, 0, weight, out));
  CHECK_FALSE(norm(std::vector<float>{1e30F, 0}, 1, weight, out));
}
