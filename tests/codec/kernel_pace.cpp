// What each kernel costs at each level, in the program that checks them: `codec_checkasm --no-skip
// -ts=pace` prints nanoseconds a scalar and how many times as fast as the scalar kernel that is.
// Nothing is judged by it.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/kernels.h"
#include "codec/linear/linear_kernels.h"
#include "codec/linear/number.h"
#include "codec/linear/plain_floats.h"
#include "codec/raw_bits.h"
#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr std::size_t steps = 512, scalar_count = steps * lanes;

/// Nanoseconds of the fastest of some runs.
double nanoseconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::max();
  const auto end = Clock::now() + std::chrono::milliseconds(40);
  do {
    const auto start = Clock::now();
    work();
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return least;
}

/// Runs `work(level)` at every level and prints a line.
void print_pace(const std::string& kernel, std::size_t scalars,
                const std::function<void(SimdLevel)>& work) {
  std::printf("  %-22s", kernel.c_str());
  double of_scalar = 0;
  for (const SimdLevel level : all_levels) {
    if (level > detected_simd_level()) continue;
    const double each = nanoseconds_of([&] { work(level); }) / static_cast<double>(scalars);
    if (level == SimdLevel::scalar) of_scalar = each;
    std::printf("%10.3f ns %6.1fx", each, of_scalar / each);
  }
  std::printf("\n");
}

/// bf16 scalars of one table, cut and coded by the scalar kernels.
struct StaticInput {
  BlockShape shape = BlockShape::opaque(DType::bf16, scalar_count * 2);
  ByteVector payload = synthetic_kv(shape, 1, 2);
  std::shared_ptr<const StaticTables> tables = fit_on(shape, payload);
  const TableSet& set = static_cast<const TableSet&>(*tables);
  bool sign_coded = set.sign_coded_tables() != 0;
  std::vector<std::uint8_t> units = std::vector<std::uint8_t>(steps * step_units);
  std::vector<std::uint8_t> symbol_list = std::vector<std::uint8_t>(scalar_count);
  std::vector<std::uint8_t> raw, escapes, rans;
  const std::uint8_t* rans_begin = nullptr;
  std::uint8_t* escapes_end = nullptr;
  RansEncoder states{};

  StaticInput()
      : raw(steps * raw_step_bytes(sign_coded ? 7 : 8)),
        escapes(scalar_count),
        rans(scalar_count + 2 * encode_slack_bytes) {
    escapes_end = split(scalar_kernels);
    rans_begin = encode(scalar_kernels);
  }
  const std::uint8_t* scalars() const {
    return reinterpret_cast<const std::uint8_t*>(payload.data());
  }
  std::uint8_t* split(const Kernels& kernels) {
    return kernels.split(DType::bf16, sign_coded, scalars(), set.encode_tables(), units.data(),
                         steps, symbol_list.data(), raw.data(), escapes.data());
  }
  std::uint8_t* encode(const Kernels& kernels) {
    states.low.fill(0);
    states.high.fill(1);
    std::uint8_t* const end = rans.data() + rans.size() - encode_slack_bytes;
    return kernels.encode(states, set.encode_tables(), units.data(), symbol_list.data(), steps,
                          end);
  }
  StepInput steps_to_decode() const {
    StepInput input;
    input.rans.low = states.low;
    input.rans.high = states.high;
    input.rans.next = rans_begin;
    input.rans.end = rans.data() + rans.size() - encode_slack_bytes;
    input.rans.readable_end = rans.data() + rans.size();
    input.escapes = {escapes.data(), escapes_end};
    input.raw = raw.data();
    return input;
  }
};

/// A panel of channels of 256 tokens with three layers below, as of a small model.
struct LinearInput {
  static constexpr std::size_t tokens = 256, channels = 384, panel = 64;
  std::vector<std::int8_t> weights = std::vector<std::int8_t>(panel * 3 * channels, 3);
  std::vector<std::int32_t> inputs = std::vector<std::int32_t>(channels / 4 * tokens, 0x05fb0301);
  const std::int32_t* below[3] = {inputs.data(), inputs.data(), inputs.data()};
  std::vector<float> scale = std::vector<float>(channels, 0.01F);
  std::vector<float> row = std::vector<float>(tokens, 0.75F);
  std::vector<float> expected = std::vector<float>(panel * tokens, 0.5F);
  std::vector<float> errors = std::vector<float>(panel * tokens, 0.25F);
  std::vector<std::int32_t> integers = std::vector<std::int32_t>(tokens, -8);
  std::vector<std::uint32_t> units = std::vector<std::uint32_t>(tokens);
  std::vector<std::uint32_t> patterns;
  CellTables tables = CellTables::fit(CellCounts{});

  LinearInput() {
    const BlockShape shape = BlockShape::opaque(DType::bf16, 2 * tokens);
    const ByteVector payload = synthetic_kv(shape, 1, 2);
    for (std::size_t t = 0; t < tokens; ++t) {
      patterns.push_back(load_scalar(payload.data() + 2 * t, 2));
    }
  }
  Products products(std::size_t layers) const {
    return {.weights = weights.data(),
            .row_stride = layers * channels,
            .rows = panel,
            .inputs = std::span(below).first(layers),
            .channels = channels,
            .tokens = tokens};
  }
  Known known() {
    return {.per_sigma = 4,
            .errors = {errors.data(), errors.data() + tokens},
            .units = units.data(),
            .mean = {0, 0},
            .input_scale = {24, 24},
            .inputs = {inputs.data(), inputs.data()},
            .bytes = {0, 1}};
  }
};

}  // namespace

TEST_SUITE_BEGIN("pace");

TEST_CASE("What kernels of the static codec cost a scalar" * doctest::skip()) {
  StaticInput input;
  const DecodeTable* const tables = input.set.decode_tables();
  std::vector<std::uint8_t> out(scalar_count * 2);
  print_pace("decode bf16", scalar_count, [&](SimdLevel level) {
    StepInput from = input.steps_to_decode();
    CHECK(kernels_of(level).decode(DType::bf16, input.sign_coded, from, tables, input.units.data(),
                                   steps, out.data()) == nullptr);
  });
  CHECK(std::ranges::equal(std::as_bytes(std::span(out)), input.payload));
  print_pace("decode symbols", scalar_count, [&](SimdLevel level) {
    RansDecoder from = input.steps_to_decode().rans;
    CHECK(kernels_of(level).decode_symbols(from, tables, input.units.data(), steps, out.data()));
  });
  print_pace("merge bf16", scalar_count, [&](SimdLevel level) {
    const Escapes escapes{input.escapes.data(), input.escapes_end};
    CHECK(kernels_of(level).merge(DType::bf16, input.sign_coded, input.symbol_list.data(), tables,
                                  input.units.data(), input.raw.data(), steps, escapes,
                                  out.data()) != nullptr);
  });
  print_pace("split bf16", scalar_count, [&](SimdLevel level) { input.split(kernels_of(level)); });
  print_pace("encode", scalar_count, [&](SimdLevel level) { input.encode(kernels_of(level)); });
  constexpr std::size_t channels = 64;
  const Tile tile{2, channels * 2, channels, scalar_count / channels};
  std::vector<std::uint32_t> first_lane(channels);
  for (std::uint32_t c = 0; c < channels; ++c) {
    first_lane[c] = c * static_cast<std::uint32_t>(tile.tokens);
  }
  print_pace("gather bf16", scalar_count, [&](SimdLevel level) {
    kernels_of(level).gather(tile, input.scalars(), first_lane.data(), out.data());
  });
  print_pace("scatter bf16", scalar_count, [&](SimdLevel level) {
    kernels_of(level).scatter(tile, input.scalars(), first_lane.data(), out.data());
  });
}

TEST_CASE("What kernels of the linear codec cost a scalar" * doctest::skip()) {
  const PlainFloats plain;
  LinearInput in;
  constexpr std::size_t tokens = LinearInput::tokens, panel = LinearInput::panel;
  std::vector<float> mu(tokens), second(tokens);
  std::vector<std::int32_t> classes(tokens), packed(panel / 4 * tokens);
  std::vector<std::uint32_t> patterns(tokens);
  const Turns turns{in.row.data(), in.row.data()};
  print_pace("map, 1152 inputs", panel * tokens, [&](SimdLevel level) {
    linear_kernels_of(level).map(in.products(3), in.scale.data(), in.scale.data(),
                                 in.expected.data());
  });
  print_pace("join, 384 inputs", panel * tokens, [&](SimdLevel level) {
    linear_kernels_of(level).join(in.products(1), in.scale.data(), in.row.data(),
                                  in.expected.data());
  });
  print_pace("learn, 63 channels", tokens, [&](SimdLevel level) {
    linear_kernels_of(level).learn(in.errors.data(), std::span(in.scale).first(panel - 1), tokens,
                                   in.expected.data());
  });
  print_pace("turn", 2 * tokens, [&](SimdLevel level) {
    linear_kernels_of(level).turn(in.row.data(), in.row.data(), turns, tokens, mu.data(),
                                  second.data());
  });
  print_pace("guess", tokens, [&](SimdLevel level) {
    linear_kernels_of(level).guess(in.row.data(), in.integers.data(), 0.5F, -4, tokens, mu.data(),
                                   classes.data());
  });
  const ScalarFormat format = scalar_format(DType::bf16);
  print_pace("know", tokens, [&](SimdLevel level) {
    linear_kernels_of(level).know(format, in.patterns.data(), in.row.data(), tokens, in.known());
  });
  const std::uint32_t* const both[2] = {in.patterns.data(), in.patterns.data()};
  const float* const turned[2] = {in.row.data(), in.row.data()};
  print_pace("know_pair", 2 * tokens, [&](SimdLevel level) {
    linear_kernels_of(level).know_pair(format, both, turned, turns, tokens, in.known());
  });
  print_pace("pack_errors", panel * tokens, [&](SimdLevel level) {
    linear_kernels_of(level).pack_errors(in.errors.data(), panel, in.row.data(), tokens,
                                         packed.data());
  });
  for (std::size_t t = 0; t < tokens; ++t) {  // as well predicted as in a real cache
    mu[t] = value_of(format, in.patterns[t]) + (t % 2 == 0 ? 0.07F : -0.11F);
    classes[t] = -14;
  }
  const Guesses guesses{mu.data(), classes.data()};
  ByteVector chain;
  print_pace("cells, encode", tokens, [&](SimdLevel level) {
    CellEncoder encoder(DType::bf16, in.tables, tokens, level);
    encoder.put(in.patterns, guesses);
    chain = encoder.finish();
  });
  print_pace("cells, decode", tokens, [&](SimdLevel level) {
    auto decoder = CellDecoder::open(DType::bf16, in.tables, chain, tokens, level);
    CHECK(decoder->get(guesses, patterns));
  });
}

TEST_SUITE_END();
