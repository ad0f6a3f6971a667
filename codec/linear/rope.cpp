#include "codec/linear/rope.h"

#include <array>
#include <cmath>
#include <numbers>

namespace kvstrata::codec {

namespace {

constexpr std::uint32_t table_bits = 10;
constexpr std::uint32_t table_steps = 1U << table_bits;
constexpr std::uint32_t rest_bits = 32 - table_bits;

/// By its series, for 0..pi/4: the same on every machine, unlike a library's.
constexpr double series(double x, bool sine) {
  double term = sine ? x : 1, sum = term;
  for (int n = sine ? 1 : 0; n < 24; n += 2) {
    term = -term * x * x / ((n + 1) * (n + 2));
    sum += term;
  }
  return sum;
}

/// cos of the steps of a turn, one more for interpolation.
constexpr std::array<float, table_steps + 1> make_cosines() {
  std::array<float, table_steps + 1> made{};
  constexpr std::uint32_t quarter = table_steps / 4;
  for (std::uint32_t i = 0; i <= table_steps; ++i) {
    const std::uint32_t half = i > table_steps / 2 ? table_steps - i : i;  // cos is even
    const bool beyond = half > quarter;
    const std::uint32_t step = beyond ? 2 * quarter - half : half;  // 0..quarter
    const double unit = 2 * std::numbers::pi / table_steps;
    const double value =
        step <= quarter / 2 ? series(step * unit, false) : series((quarter - step) * unit, true);
    made[i] = static_cast<float>(beyond ? -value : value);
  }
  return made;
}

constexpr std::array<float, table_steps + 1> cosines = make_cosines();

float cosine(std::uint32_t angle) {
  const std::uint32_t step = angle >> rest_bits;
  const float part = static_cast<float>(angle & ((1U << rest_bits) - 1)) / (1U << rest_bits);
  return std::fma(part, cosines[step + 1] - cosines[step], cosines[step]);
}

}  // namespace

Rope::Rope(const RopeSpec& spec) {
  for (std::uint32_t pair = 0; pair < spec.rotary_dim / 2; ++pair) {
    const double frequency = std::pow(spec.theta, -2.0 * pair / spec.rotary_dim);
    const double turns = frequency / (2 * std::numbers::pi);
    steps_.push_back(static_cast<std::uint32_t>(std::llround(turns * 4294967296.0)));
  }
}

Turn Rope::at(std::uint32_t pair, std::uint32_t position) const {
  const std::uint32_t angle = steps_[pair] * position;  // modulo a turn
  constexpr std::uint32_t quarter = 1U << 30;
  return {cosine(angle), cosine(angle - quarter)};
}

}  // namespace kvstrata::codec
