// The kernels as they are meant: one number at a time.
#include <cmath>
#include <vector>

#include "codec/linear/cell_scalar.h"
#include "codec/linear/linear_kernels.h"
#include "codec/linear/number.h"
#include "codec/linear/token_scale.h"

namespace kvstrata::codec {

namespace {

void pack(std::int32_t& four, std::size_t byte, std::int32_t value) {
  const std::uint32_t before = byte == 0 ? 0 : static_cast<std::uint32_t>(four);
  four = static_cast<std::int32_t>(before | (static_cast<std::uint32_t>(value) & 0xff) << 8 * byte);
}

/// Calls visit(row, token, sum) for all sums.
template <typename Visit>
void for_each_sum(const Products& products, Visit&& visit) {
  std::vector<std::int8_t> inputs(products.inputs.size() * products.channels);
  for (std::size_t t = 0; t < products.tokens; ++t) {
    std::int8_t* to = inputs.data();
    for (const std::int32_t* const input : products.inputs) {
      for (std::size_t c = 0; c < products.channels; ++c) {
        const auto four = static_cast<std::uint32_t>(input[c / 4 * products.tokens + t]);
        *to++ = static_cast<std::int8_t>(four >> 8 * (c % 4));
      }
    }
    for (std::size_t r = 0; r < products.rows; ++r) {
      const std::int8_t* const weights = products.weights + r * products.row_stride;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) sum += inputs[i] * weights[i];
      visit(r, t, static_cast<float>(sum));
    }
  }
}

void map(const Products& products, const float* scale, const float* bias, float* expected) {
  for_each_sum(products, [&](std::size_t r, std::size_t t, float sum) {
    expected[r * products.tokens + t] = std::fma(sum, scale[r], bias[r]);
  });
}

void join(const Products& products, const float* scale, const float* token_scale, float* expected) {
  for_each_sum(products, [&](std::size_t r, std::size_t t, float sum) {
    float& number = expected[r * products.tokens + t];
    number = std::fma(sum, scale[r] * token_scale[t], number);
  });
}

void learn(const float* errors, std::span<const float> weights, std::size_t tokens,
           float* expected) {
  for (std::size_t j = 0; j < weights.size(); ++j) {
    for (std::size_t t = 0; t < tokens; ++t) {
      expected[t] = std::fma(errors[j * tokens + t], weights[j], expected[t]);
    }
  }
}

void turn(const float* a, const float* b, const Turns& turns, std::size_t tokens, float* first,
          float* second) {
  for (std::size_t t = 0; t < tokens; ++t) {
    first[t] = std::fma(a[t], turns.cosine[t], -(b[t] * turns.sine[t]));
    second[t] = std::fma(b[t], turns.cosine[t], a[t] * turns.sine[t]);
  }
}

void guess(const float* expected, const std::int32_t* steps, float sigma, std::int32_t sigma_class,
           std::size_t tokens, float* mu, std::int32_t* classes) {
  for (std::size_t t = 0; t < tokens; ++t) {
    mu[t] = expected[t] * sigma;
    classes[t] = sigma_class + steps[t];
  }
}

void keep(const Known& known, std::size_t which, std::size_t token, float error, float value) {
  known.errors[which][token] = error;
  known.units[token] += static_cast<std::uint32_t>(units_of(error));
  const float input = (value - known.mean[which]) * known.input_scale[which];
  pack(known.inputs[which][token], known.bytes[which], std::isfinite(input) ? to_int8(input) : 0);
}

void know(const ScalarFormat& format, const std::uint32_t* patterns, const float* expected,
          std::size_t tokens, const Known& known) {
  for (std::size_t t = 0; t < tokens; ++t) {
    const float value = value_of(format, patterns[t]);
    keep(known, 0, t, tame(value * known.per_sigma - expected[t]), value);
  }
}

void know_pair(const ScalarFormat& format, const std::uint32_t* const patterns[2],
               const float* const turned[2], const Turns& turns, std::size_t tokens,
               const Known& known) {
  for (std::size_t t = 0; t < tokens; ++t) {
    const float cosine = turns.cosine[t], sine = turns.sine[t];
    const float x = value_of(format, patterns[0][t]), y = value_of(format, patterns[1][t]);
    const float a = tame(x * known.per_sigma - turned[0][t]);
    const float b = tame(y * known.per_sigma - turned[1][t]);
    keep(known, 0, t, std::fma(a, cosine, b * sine), std::fma(x, cosine, y * sine));
    keep(known, 1, t, std::fma(b, cosine, -(a * sine)), std::fma(y, cosine, -(x * sine)));
  }
}

void pack_errors(const float* errors, std::size_t count, const float* per_scale, std::size_t tokens,
                 std::int32_t* packed) {
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t t = 0; t < tokens; ++t) {
      pack(packed[c / 4 * tokens + t], c % 4, to_int8(errors[c * tokens + t] * per_scale[t]));
    }
  }
}

void decode(CellSource& source, const CellCoding& coding, const Guesses& guesses,
            std::span<std::uint32_t> patterns) {
  for (std::size_t t = 0; t < patterns.size() && !source.failed; ++t) {
    patterns[t] =
        take_cell(source, coding, t % source.lanes, guesses.mu[t], guesses.sigma_class[t]);
  }
}

void encode(CellSink& sink, const CellCoding& coding, const Guesses& guesses,
            std::span<const std::uint32_t> patterns) {
  for (std::size_t t = 0; t < patterns.size(); ++t) {
    put_cell(sink, coding, t % sink.lanes, patterns[t], guesses.mu[t], guesses.sigma_class[t]);
  }
}

}  // namespace

const LinearKernels scalar_linear_kernels{map,  join,      learn,       turn,   guess,
                                          know, know_pair, pack_errors, decode, encode};

}  // namespace kvstrata::codec
