// The kernels of linear_kernels.h for vectors of tokens. Included once for each instruction set,
// inside its namespace, after a `Lanes` of it; linear_kernels_scalar.cpp says what they compute.

namespace {

using Float = Lanes::Float;
using Int = Lanes::Int;
using Mask = Lanes::Mask;

/// Rows of weights that a product takes at a time, and vectors of tokens.
constexpr std::size_t rows_at_once = 4, vectors_at_once = Lanes::size == 16 ? 4 : 2;

/// Sums of rows x vectors tokens from `token` on.
template <std::size_t rows, std::size_t vectors>
KV_LANES_INLINE void sum_products(const Products& products, std::size_t row, std::size_t token,
                                  Int (&sums)[rows][vectors]) {
  const std::int8_t* weights = products.weights + row * products.row_stride;
  const std::size_t all_weights = products.inputs.size() * products.channels;
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r) {
    const Int start = Lanes::all(-Lanes::excess(weights + r * products.row_stride, all_weights));
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) sums[r][v] = start;
  }
  for (const std::int32_t* const input : products.inputs) {
    for (std::size_t four = 0; four < products.channels / 4; ++four) {
      const std::int32_t* const packed = input + four * products.tokens + token;
      Lanes::Input inputs[vectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) inputs[v] = Lanes::input(packed + v * Lanes::size);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < rows; ++r) {
        std::int32_t bits;
        std::memcpy(&bits, weights + r * products.row_stride + 4 * four, sizeof bits);
        const Int weight = Lanes::all(bits);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) {
          sums[r][v] = Lanes::multiply(sums[r][v], inputs[v], weight);
        }
      }
    }
    weights += products.channels;
  }
}

/// What becomes of a sum: see LinearKernels::map.
struct Map {
  const float *scale, *bias;

  KV_LANES_INLINE Float operator()(Int sum, std::size_t row, std::size_t, const float*) const {
    return Lanes::fma(Lanes::to_float(sum), Lanes::all(scale[row]), Lanes::all(bias[row]));
  }
};

/// See LinearKernels::join.
struct Join {
  const float *scale, *token_scale;

  KV_LANES_INLINE Float operator()(Int sum, std::size_t row, std::size_t token,
                                   const float* before) const {
    const Float by = Lanes::mul(Lanes::all(scale[row]), Lanes::load(token_scale + token));
    return Lanes::fma(Lanes::to_float(sum), by, Lanes::load(before));
  }
};

template <std::size_t rows, std::size_t vectors, typename Finish>
KV_LANES_INLINE void multiply_tile(const Products& products, const Finish& finish, std::size_t row,
                                   std::size_t token, float* expected) {
  Int sums[rows][vectors];
  sum_products(products, row, token, sums);
#pragma GCC unroll 4
  for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t at = token + v * Lanes::size;
      float* const to = expected + (row + r) * products.tokens + at;
      Lanes::store(to, finish(sums[r][v], row + r, at, to));
    }
  }
}

template <std::size_t rows, typename Finish>
KV_LANES_INLINE void multiply_rows(const Products& products, const Finish& finish, std::size_t row,
                                   float* expected) {
  constexpr std::size_t at_once = vectors_at_once * Lanes::size;
  std::size_t token = 0;
  for (; token + at_once <= products.tokens; token += at_once) {
    multiply_tile<rows, vectors_at_once>(products, finish, row, token, expected);
  }
  for (; token < products.tokens; token += Lanes::size) {
    multiply_tile<rows, 1>(products, finish, row, token, expected);
  }
}

template <typename Finish>
KV_LANES_INLINE void multiply(const Products& products, const Finish& finish, float* expected) {
  std::size_t row = 0;
  for (; row + rows_at_once <= products.rows; row += rows_at_once) {
    multiply_rows<rows_at_once>(products, finish, row, expected);
  }
  for (; row < products.rows; ++row) multiply_rows<1>(products, finish, row, expected);
}

KV_LANES void map(const Products& products, const float* scale, const float* bias,
                  float* expected) {
  multiply(products, Map{scale, bias}, expected);
}

KV_LANES void join(const Products& products, const float* scale, const float* token_scale,
                   float* expected) {
  multiply(products, Join{scale, token_scale}, expected);
}

template <std::size_t vectors>
KV_LANES_INLINE void learn_vectors(const float* errors, std::span<const float> weights,
                                   std::size_t tokens, float* expected) {
  Float sums[vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) sums[v] = Lanes::load(expected + v * Lanes::size);
  for (const float weight : weights) {
    const Float by = Lanes::all(weight);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      sums[v] = Lanes::fma(Lanes::load(errors + v * Lanes::size), by, sums[v]);
    }
    errors += tokens;
  }
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) Lanes::store(expected + v * Lanes::size, sums[v]);
}

KV_LANES void learn(const float* errors, std::span<const float> weights, std::size_t tokens,
                    float* expected) {
  constexpr std::size_t vectors = 4;
  std::size_t t = 0;
  for (; t + vectors * Lanes::size <= tokens; t += vectors * Lanes::size) {
    learn_vectors<vectors>(errors + t, weights, tokens, expected + t);
  }
  for (; t < tokens; t += Lanes::size) {
    learn_vectors<1>(errors + t, weights, tokens, expected + t);
  }
}

KV_LANES_INLINE Float negative(Float value) {
  return Lanes::as_float(
      Lanes::bit_xor(Lanes::as_bits(value), Lanes::all(std::numeric_limits<std::int32_t>::min())));
}

/// fma(a, x, b · y), and fma(a, x, -(b · y)).
KV_LANES_INLINE Float sum_of_two(Float a, Float x, Float b, Float y) {
  return Lanes::fma(a, x, Lanes::mul(b, y));
}
KV_LANES_INLINE Float difference_of_two(Float a, Float x, Float b, Float y) {
  return Lanes::fma(a, x, negative(Lanes::mul(b, y)));
}

KV_LANES void turn(const float* a, const float* b, const Turns& turns, std::size_t tokens,
                   float* first, float* second) {
  for (std::size_t t = 0; t < tokens; t += Lanes::size) {
    const Float x = Lanes::load(a + t), y = Lanes::load(b + t);
    const Float cosine = Lanes::load(turns.cosine + t), sine = Lanes::load(turns.sine + t);
    Lanes::store(first + t, difference_of_two(x, cosine, y, sine));
    Lanes::store(second + t, sum_of_two(y, cosine, x, sine));
  }
}

KV_LANES void guess(const float* expected, const std::int32_t* steps, float sigma,
                    std::int32_t sigma_class, std::size_t tokens, float* mu,
                    std::int32_t* classes) {
  for (std::size_t t = 0; t < tokens; t += Lanes::size) {
    Lanes::store(mu + t, Lanes::mul(Lanes::load(expected + t), Lanes::all(sigma)));
    Lanes::store(classes + t, Lanes::add(Lanes::load(steps + t), Lanes::all(sigma_class)));
  }
}

/// See value_of().
struct ValueOf {
  const ScalarFormat format;
  const FloatRange range;
  const float least;  ///< of a subnormal's mantissa; 0 where binary32 has the same subnormals

  explicit ValueOf(const ScalarFormat& of)
      : format(of),
        range(of),
        least(range.exponent_min == std::numeric_limits<float>::min_exponent - 1
                  ? 0
                  : std::ldexp(1.0F, range.exponent_min - range.mantissa_bits)) {}

  KV_LANES_INLINE Float operator()(Int pattern) const {
    const auto mantissa_bits = static_cast<std::int32_t>(format.mantissa_bits);
    const auto key_max = (1 << format.key_bits) - 1;
    const Int key =
        Lanes::bit_and(Lanes::right(pattern, Lanes::all(mantissa_bits)), Lanes::all(key_max));
    const Int mantissa = Lanes::bit_and(pattern, Lanes::all((1 << mantissa_bits) - 1));
    const Int exponent = Lanes::add(key, Lanes::all(range.exponent_min + 126));
    Int size = Lanes::bit_or(Lanes::left<23>(exponent),
                             Lanes::left(mantissa, Lanes::all(23 - mantissa_bits)));
    if (least != 0) {  // else a product would be a subnormal, which takes 100 times as long
      const Int subnormal =
          Lanes::as_bits(Lanes::mul(Lanes::to_float(mantissa), Lanes::all(least)));
      size = Lanes::choose(Lanes::equal(key, Lanes::all(0)), subnormal, size);
    }
    const Int sign = Lanes::left(
        Lanes::right(pattern, Lanes::all(mantissa_bits + static_cast<int>(format.key_bits))),
        Lanes::all(31));
    return Lanes::as_float(Lanes::bit_or(size, sign));
  }
};

KV_LANES_INLINE Int size_bits(Float value) {
  return Lanes::bit_and(Lanes::as_bits(value), Lanes::all(0x7fffffff));
}
KV_LANES_INLINE Mask is_finite(Float value) {
  return Lanes::less(size_bits(value), Lanes::all(0x7f800000));
}
KV_LANES_INLINE Float clamp(Float value, float most) {
  return Lanes::min(Lanes::max(value, Lanes::all(-most)), Lanes::all(most));
}
KV_LANES_INLINE Float tame(Float error) {
  return Lanes::only(is_finite(error), clamp(error, error_max));
}

/// Puts int8 numbers into their byte of four; the first one clears the others.
KV_LANES_INLINE void pack(std::int32_t* packed, std::size_t byte, Int value) {
  const Int mine = Lanes::left(Lanes::bit_and(value, Lanes::all(0xff)),
                               Lanes::all(static_cast<std::int32_t>(8 * byte)));
  Lanes::store(packed, byte == 0 ? mine : Lanes::bit_or(Lanes::load(packed), mine));
}

/// Error and value of a channel's tokens from `token` on, once they are known.
KV_LANES_INLINE void keep(const Known& known, std::size_t which, std::size_t token, Float error,
                          Float value) {
  Lanes::store(known.errors[which] + token, error);
  const Float size = Lanes::as_float(size_bits(error));
  const Float units = Lanes::mul(size, Lanes::all(error_units));
  const Int counted =
      Lanes::min(Lanes::to_int(Lanes::min(units, Lanes::all(float{error_units_max}))),
                 Lanes::all(error_units_max));
  std::uint32_t* const sum = known.units + token;
  Lanes::store(sum, Lanes::add(Lanes::load(sum), counted));
  const Float input = Lanes::mul(Lanes::sub(value, Lanes::all(known.mean[which])),
                                 Lanes::all(known.input_scale[which]));
  pack(known.inputs[which] + token, known.bytes[which],
       Lanes::to_int(Lanes::only(is_finite(input), clamp(input, 127))));
}

KV_LANES void know(const ScalarFormat& format, const std::uint32_t* patterns, const float* expected,
                   std::size_t tokens, const Known& known) {
  const ValueOf value_of(format);
  const Float per_sigma = Lanes::all(known.per_sigma);
  for (std::size_t t = 0; t < tokens; t += Lanes::size) {
    const Float value = value_of(Lanes::load(patterns + t));
    const Float error = Lanes::sub(Lanes::mul(value, per_sigma), Lanes::load(expected + t));
    keep(known, 0, t, tame(error), value);
  }
}

KV_LANES void know_pair(const ScalarFormat& format, const std::uint32_t* const patterns[2],
                        const float* const turned[2], const Turns& turns, std::size_t tokens,
                        const Known& known) {
  const ValueOf value_of(format);
  const Float per_sigma = Lanes::all(known.per_sigma);
  for (std::size_t t = 0; t < tokens; t += Lanes::size) {
    const Float cosine = Lanes::load(turns.cosine + t), sine = Lanes::load(turns.sine + t);
    const Float x = value_of(Lanes::load(patterns[0] + t));
    const Float y = value_of(Lanes::load(patterns[1] + t));
    const Float a = tame(Lanes::sub(Lanes::mul(x, per_sigma), Lanes::load(turned[0] + t)));
    const Float b = tame(Lanes::sub(Lanes::mul(y, per_sigma), Lanes::load(turned[1] + t)));
    keep(known, 0, t, sum_of_two(a, cosine, b, sine), sum_of_two(x, cosine, y, sine));
    keep(known, 1, t, difference_of_two(b, cosine, a, sine), difference_of_two(y, cosine, x, sine));
  }
}

KV_LANES void pack_errors(const float* errors, std::size_t count, const float* per_scale,
                          std::size_t tokens, std::int32_t* packed) {
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t t = 0; t < tokens; t += Lanes::size) {
      const Float scaled =
          Lanes::mul(Lanes::load(errors + c * tokens + t), Lanes::load(per_scale + t));
      pack(packed + c / 4 * tokens + t, c % 4, Lanes::to_int(clamp(scaled, 127)));
    }
  }
}

/// See expect(); its members are those of Expectation.
struct Expected {
  Int exponent, cell, context, mirror;  ///< of the grid; mirror: all bits set where mirrored

  KV_LANES_INLINE Expected(const FloatRange& range, Float mu, Int sigma_class) {
    const Int classes = Lanes::max(Lanes::min(sigma_class, Lanes::all(sigma_class_max)),
                                   Lanes::all(-sigma_class_max));
    const Int bits = Lanes::as_bits(Lanes::only(is_finite(mu), mu));
    const Int key = Lanes::bit_and(Lanes::right<23>(bits), Lanes::all(0xff));
    const Int hidden = Lanes::left<23>(Lanes::min(key, Lanes::all(1)));
    const Int significand = Lanes::bit_or(Lanes::bit_and(bits, Lanes::all(0x7fffff)), hidden);
    const Int of_mu = Lanes::sub(Lanes::max(key, Lanes::all(1)), Lanes::all(127));
    const Int of_sigma = Lanes::right_signed<2>(Lanes::sub(classes, Lanes::all(sigma_offset)));
    const Int of_ulp = Lanes::sub(Lanes::max(of_mu, Lanes::all(range.exponent_min)),
                                  Lanes::all(range.mantissa_bits));
    exponent = Lanes::max(Lanes::max(of_sigma, of_ulp), Lanes::all(range.exponent_min));
    const Int dropped = Lanes::sub(Lanes::add(exponent, Lanes::all(19)), of_mu);
    const Int sixteenths = Lanes::right(significand, dropped);
    cell = Lanes::right<4>(sixteenths);
    mirror = Lanes::right_signed<31>(bits);
    const Int phase = Lanes::bit_and(sixteenths, Lanes::all(15));
    const Int wide =
        Lanes::sub(Lanes::sub(classes, Lanes::all(sigma_offset)), Lanes::left<2>(exponent));
    const Int error_class =
        Lanes::max(Lanes::min(wide, Lanes::all(class_max)), Lanes::all(class_min));
    const Int narrow =
        Lanes::add(Lanes::left<4>(Lanes::sub(error_class, Lanes::all(class_min))), phase);
    const Int other = Lanes::add(Lanes::add(Lanes::left<2>(error_class), Lanes::right<2>(phase)),
                                 Lanes::all(static_cast<std::int32_t>(contexts_narrow)));
    context = Lanes::choose(Lanes::less(error_class, Lanes::all(0)), narrow, other);
  }
};
static_assert(phases_narrow == 16 && phases_wide == 4 && sigma_steps == 4);

KV_LANES_INLINE Int sign_bit(const ScalarFormat& format) {
  return Lanes::all(std::int32_t{1} << (format.mantissa_bits + format.key_bits));
}

/// See raw_bits_of().
KV_LANES_INLINE Int raw_bits(const FloatRange& range, Int away) {
  const Int mantissa_bits = Lanes::all(range.mantissa_bits);
  const Int left = Lanes::max(Lanes::sub(mantissa_bits, Lanes::log2(away)), Lanes::all(0));
  return Lanes::choose(Lanes::equal(away, Lanes::all(0)), mantissa_bits, left);
}

/// Symbols of states, which go past them.
KV_LANES_INLINE Int take_symbols(CellSource& source, const CellTables& tables, Int context,
                                 std::size_t lane, Mask active) {
  const Int state = Lanes::load(source.states.data() + lane);
  const Int slot =
      Lanes::bit_and(state, Lanes::all(static_cast<std::int32_t>(cell_frequency_sum - 1)));
  const Int row = Lanes::left<4>(context);
  Int at = row;
#pragma GCC unroll 4
  for (std::int32_t half = cell_symbols / 2; half > 0; half /= 2) {
    const Int next = Lanes::add(at, Lanes::all(half));
    const Int begin = Lanes::right<16>(Lanes::look_up(tables.rows(), next));
    at = Lanes::choose(Lanes::less(slot, begin), at, next);
  }
  const Int entry = Lanes::look_up(tables.rows(), at);
  const Int moved = Lanes::add(Lanes::mul(Lanes::bit_and(entry, Lanes::all(0xffff)),
                                          Lanes::right<cell_frequency_bits>(state)),
                               Lanes::sub(slot, Lanes::right<16>(entry)));
  const Mask starved = Lanes::both(Lanes::equal(Lanes::right<16>(moved), Lanes::all(0)), active);
  const Int filled = Lanes::bit_or(Lanes::left<16>(moved), Lanes::spread(source.words, starved));
  source.words += __builtin_popcount(Lanes::bits_of(starved));
  Lanes::store(source.states.data() + lane,
               Lanes::choose(active, Lanes::choose(starved, filled, moved), state));
  return Lanes::sub(at, row);
}

/// The next `counts` bits of each lane, at most 16.
KV_LANES_INLINE Int take_raw(BitReader& raw, Int counts) {
  std::int32_t total = 0;
  const Int before = Lanes::sums_before(counts, total);
  const std::uint64_t position = raw.position();
  const Int at = Lanes::add(before, Lanes::all(static_cast<std::int32_t>(position % 8)));
  const Int bits = Lanes::right(Lanes::load_at(raw.bytes() + position / 8, Lanes::right<3>(at)),
                                Lanes::bit_and(at, Lanes::all(7)));
  raw.skip(static_cast<std::uint64_t>(total));
  const Int mask = Lanes::sub(Lanes::left(Lanes::all(1), counts), Lanes::all(1));
  return Lanes::bit_and(bits, mask);
}

/// See scalar_at(): of a lane's cell, not yet mirrored back. `wrong` gains lanes without a scalar.
KV_LANES_INLINE Int scalars_at(const CellCoding& coding, Int exponent, Int cell, Int halvings,
                               Int raw, Mask& wrong) {
  const FloatRange& range = coding.range;
  const Int zero = Lanes::all(0), mantissa_bits = Lanes::all(range.mantissa_bits);
  const Int negative_cell = Lanes::right_signed<31>(cell);
  const Int away = Lanes::bit_xor(cell, negative_cell);
  const Mask near = Lanes::equal(away, zero);
  const Int octaves = Lanes::log2(away);
  const Int left = Lanes::sub(mantissa_bits, octaves), over = Lanes::sub(octaves, mantissa_bits);
  const Int shifted = Lanes::bit_or(Lanes::left(away, left), Lanes::right(away, over));
  const Int lost = Lanes::bit_and(
      away, Lanes::sub(Lanes::left(Lanes::all(1), Lanes::max(over, zero)), Lanes::all(1)));
  const Mask halfway = Lanes::without(Lanes::less(zero, lost), near);
  const Int of_cell = Lanes::add(exponent, octaves);
  const Int of_near = Lanes::sub(Lanes::sub(exponent, Lanes::all(1)), halvings);
  const Int of_scalar = Lanes::choose(near, of_near, of_cell);
  const Int least = Lanes::all(range.exponent_min);
  const Int key = Lanes::max(Lanes::add(Lanes::sub(of_scalar, least), Lanes::all(1)), zero);
  const Int significand = Lanes::choose(near, raw, Lanes::bit_or(shifted, raw));
  const Int mantissa = Lanes::bit_and(significand, Lanes::all((1 << range.mantissa_bits) - 1));
  const Mask too_small = Lanes::less(Lanes::add(of_scalar, Lanes::all(1)), least);
  const Mask too_large = Lanes::less(Lanes::all((1 << coding.format.key_bits) - 1), key);
  wrong = Lanes::either(wrong, Lanes::either(halfway, Lanes::either(too_small, too_large)));
  return Lanes::bit_or(Lanes::bit_or(Lanes::left(key, mantissa_bits), mantissa),
                       Lanes::bit_and(negative_cell, sign_bit(coding.format)));
}

/// What lanes have in the stream of rare things: halvings of those near 0, all of tails.
KV_LANES void take_rare(CellSource& source, const CellCoding& coding, const Guesses& guesses,
                        unsigned rare, unsigned tails, const std::int32_t* symbols,
                        std::int32_t* halvings, std::uint32_t* whole) {
  for (; rare != 0; rare &= rare - 1) {
    const auto lane = static_cast<std::size_t>(__builtin_ctz(rare));
    if ((tails >> lane & 1) == 0) {
      halvings[lane] = static_cast<std::int32_t>(take_halvings(source.rare));
      continue;
    }
    const Expectation expectation =
        expect(coding.range, guesses.mu[lane], guesses.sigma_class[lane]);
    whole[lane] = take_tail(source, coding, static_cast<std::uint32_t>(symbols[lane]), expectation);
  }
}

/// A vector of tokens, those of `active`.
KV_LANES_INLINE void decode_vector(CellSource& source, const CellCoding& coding,
                                   const Guesses& guesses, std::size_t lane, Mask active,
                                   std::uint32_t* patterns) {
  const Expected expected(coding.range, Lanes::load(guesses.mu), Lanes::load(guesses.sigma_class));
  const Int symbol = take_symbols(source, *coding.tables, expected.context, lane, active);
  const Mask tail = Lanes::both(
      Lanes::less(Lanes::all(static_cast<std::int32_t>(symbol_above) - 1), symbol), active);
  const Mask ordinary = Lanes::without(active, tail);
  const Int cell = Lanes::sub(Lanes::add(expected.cell, symbol),
                              Lanes::all(static_cast<std::int32_t>(cell_reach_down)));
  const Int away = Lanes::bit_xor(cell, Lanes::right_signed<31>(cell));
  const Mask near = Lanes::both(Lanes::equal(away, Lanes::all(0)), ordinary);
  const Int raw = take_raw(source.raw, Lanes::only(ordinary, raw_bits(coding.range, away)));

  alignas(64) std::int32_t halvings[Lanes::size] = {};
  alignas(64) std::uint32_t whole[Lanes::size] = {};
  const unsigned tails = Lanes::bits_of(tail), rare = tails | Lanes::bits_of(near);
  if (rare != 0) {
    alignas(64) std::int32_t symbols[Lanes::size];
    Lanes::store(symbols, symbol);
    take_rare(source, coding, guesses, rare, tails, symbols, halvings, whole);
  }
  Mask wrong = Lanes::less(Lanes::all(0), Lanes::all(0));
  Int scalars = scalars_at(coding, expected.exponent, cell, Lanes::load(halvings), raw, wrong);
  source.failed |= Lanes::bits_of(Lanes::both(wrong, ordinary)) != 0;
  scalars = Lanes::bit_xor(scalars, Lanes::bit_and(expected.mirror, sign_bit(coding.format)));
  Lanes::store(patterns, Lanes::choose(tail, Lanes::load(whole), scalars));
}

KV_LANES void decode(CellSource& source, const CellCoding& coding, const Guesses& guesses,
                     std::span<std::uint32_t> patterns) {
  for (std::size_t t = 0; t < patterns.size() && !source.failed; t += Lanes::size) {
    decode_vector(source, coding, {guesses.mu + t, guesses.sigma_class + t}, t % source.lanes,
                  Lanes::first(patterns.size() - t), patterns.data() + t);
    source.failed |= source.words > source.words_end || source.raw.overrun();
  }
}

/// What a vector of tokens is coded as.
struct CodedVector {
  alignas(64) std::int32_t context[Lanes::size];
  alignas(64) std::int32_t symbol[Lanes::size];
  alignas(64) std::int32_t raw[Lanes::size];
  alignas(64) std::int32_t raw_bits[Lanes::size];
  alignas(64) std::int32_t halvings[Lanes::size];
  alignas(64) std::int32_t mirrored[Lanes::size];  ///< the pattern, mirrored where it is
  unsigned tails, near;
};

/// Beyond so many cells a scalar is left to put_tail(), whatever its symbol.
constexpr std::int32_t shift_max = 12;

/// See place_of() and put_cell().
KV_LANES_INLINE void place_vector(const CellCoding& coding, const Guesses& guesses, Int patterns,
                                  CodedVector& coded) {
  const FloatRange& range = coding.range;
  const Int zero = Lanes::all(0), mantissa_bits = Lanes::all(range.mantissa_bits);
  const Expected expected(range, Lanes::load(guesses.mu), Lanes::load(guesses.sigma_class));
  const Int bits =
      Lanes::bit_xor(patterns, Lanes::bit_and(expected.mirror, sign_bit(coding.format)));
  const Int mantissa = Lanes::bit_and(bits, Lanes::all((1 << range.mantissa_bits) - 1));
  const Int key = Lanes::bit_and(Lanes::right(bits, mantissa_bits),
                                 Lanes::all((1 << coding.format.key_bits) - 1));
  const Int hidden = Lanes::left(Lanes::min(key, Lanes::all(1)), mantissa_bits);
  const Int significand = Lanes::bit_or(mantissa, hidden);
  const Int exponent =
      Lanes::add(Lanes::max(key, Lanes::all(1)), Lanes::all(range.exponent_min - 1));
  const Int shift = Lanes::sub(Lanes::sub(exponent, mantissa_bits), expected.exponent);
  const Int away = Lanes::bit_or(Lanes::left(significand, shift),
                                 Lanes::right(significand, Lanes::sub(zero, shift)));
  const Mask negative_bits = Lanes::less(zero, Lanes::bit_and(bits, sign_bit(coding.format)));
  const Int cell = Lanes::choose(negative_bits, Lanes::sub(Lanes::all(-1), away), away);
  const Int symbol = Lanes::add(Lanes::sub(cell, expected.cell),
                                Lanes::all(static_cast<std::int32_t>(cell_reach_down)));
  const Mask outside = Lanes::either(
      Lanes::either(Lanes::less(symbol, zero),
                    Lanes::less(Lanes::all(static_cast<std::int32_t>(symbol_above) - 1), symbol)),
      Lanes::less(Lanes::all(shift_max), shift));
  const Int halvings = Lanes::choose(
      Lanes::equal(key, zero), Lanes::sub(expected.exponent, Lanes::all(range.exponent_min)),
      Lanes::sub(Lanes::sub(expected.exponent, Lanes::all(1)), exponent));
  const Int count = raw_bits(range, away);
  Lanes::store(coded.context, expected.context);
  Lanes::store(coded.symbol, symbol);
  Lanes::store(coded.raw, Lanes::bit_and(mantissa, Lanes::sub(Lanes::left(Lanes::all(1), count),
                                                              Lanes::all(1))));
  Lanes::store(coded.raw_bits, count);
  Lanes::store(coded.halvings, halvings);
  Lanes::store(coded.mirrored, bits);
  coded.tails = Lanes::bits_of(outside);
  coded.near = Lanes::bits_of(Lanes::equal(away, zero));
}

KV_LANES void put_vector(CellSink& sink, const CellCoding& coding, const Guesses& guesses,
                         std::size_t first_lane, std::size_t count, const CodedVector& coded) {
  for (std::size_t i = 0; i < count; ++i) {
    auto symbol = static_cast<std::uint8_t>(coded.symbol[i]);
    if ((coded.tails >> i & 1) != 0) {
      symbol = put_tail(sink, coding, static_cast<std::uint32_t>(coded.mirrored[i]),
                        expect(coding.range, guesses.mu[i], guesses.sigma_class[i]));
    } else {
      if ((coded.near >> i & 1) != 0) {
        put_halvings(sink.rare, static_cast<std::uint32_t>(coded.halvings[i]));
      }
      sink.raw.append(static_cast<std::uint32_t>(coded.raw[i]),
                      static_cast<std::uint32_t>(coded.raw_bits[i]));
    }
    sink.coded.push_back({static_cast<std::uint8_t>(coded.context[i]), symbol,
                          static_cast<std::uint8_t>(first_lane + i)});
  }
}

KV_LANES void encode(CellSink& sink, const CellCoding& coding, const Guesses& guesses,
                     std::span<const std::uint32_t> patterns) {
  for (std::size_t t = 0; t < patterns.size(); t += Lanes::size) {
    const Guesses part{guesses.mu + t, guesses.sigma_class + t};
    CodedVector coded;
    place_vector(coding, part, Lanes::load(patterns.data() + t), coded);
    const std::size_t count = std::min(Lanes::size, patterns.size() - t);
    put_vector(sink, coding, part, t % sink.lanes, count, coded);
  }
}

constexpr LinearKernels kernels{map,  join,      learn,       turn,   guess,
                                know, know_pair, pack_errors, decode, encode};

}  // namespace
