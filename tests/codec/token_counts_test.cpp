// Blocks of any number of tokens (1 to 1,024) or channels, and values of any number of bytes: the
// same bytes from every level of machine code, and back. `--no-skip -ts=every` tries each number
// of each dtype, in some minutes; without it a choice.
#include <doctest/doctest.h>

#include <numeric>

#include "codec/linear/linear_parameters.h"
#include "tests/codec/layered_kv.h"
#include "tests/codec/round_trip.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr std::uint32_t tokens_max = 1024, channels_max = 600, bytes_max = 4097;

std::vector<std::uint32_t> every_count(std::uint32_t first, std::uint32_t last) {
  std::vector<std::uint32_t> counts(last - first + 1);
  std::iota(counts.begin(), counts.end(), first);
  return counts;
}

/// Those around the widths of vectors, steps and units, and some beyond.
std::vector<std::uint32_t> some_counts(std::uint32_t first, std::uint32_t last) {
  std::vector<std::uint32_t> counts{0,  1,   2,   7,   15,  16,  17,   31,   33,   63,  64,
                                    65, 127, 128, 129, 255, 257, 1023, 1024, 4096, 4097};
  std::erase_if(counts, [&](std::uint32_t count) { return count < first || count > last; });
  return counts;
}

using Counts = std::vector<std::uint32_t> (*)(std::uint32_t first, std::uint32_t last);

/// Blocks of three channels a side, whose K lies token by token or channel by channel.
void check_tokens(DType dtype, Counts counts) {
  for (const char* k_axes : {"LPHSTC", "LPHSCT"}) {
    const BlockShape whole = block_shape(dtype, 1, 1, 3, tokens_max, k_axes, "LPHSTC");
    const ByteVector kv = synthetic_kv(whole, 1, 1);
    const auto tables = fit_on(whole, kv);
    for (const std::uint32_t tokens : counts(1, tokens_max)) {
      CAPTURE(tokens);
      BlockShape shape = whole;
      shape.tokens = tokens;
      round_trip(shape, tables.get(), ByteVector(kv.begin(), kv.begin() + shape.raw_bytes()));
    }
  }
}

/// Blocks of 17 tokens: a vector and a rest. Each is fitted on itself, which is slow.
void check_channels(DType dtype, Counts counts) {
  for (const std::uint32_t channels : counts(1, channels_max)) {
    CAPTURE(channels);
    const BlockShape shape = block_shape(dtype, 1, 1, channels, 17);
    const ByteVector kv = synthetic_kv(shape, 1, 1);
    round_trip(shape, fit_on(shape, kv).get(), kv);
  }
}

void check_values(DType dtype, Counts counts) {
  const ByteVector kv = synthetic_kv(block_shape(dtype, 1, 1, 64, 128, "LSPTHC"), 1, 1);
  const auto tables = fit_on(BlockShape::opaque(dtype, kv.size()), kv);
  for (const std::uint32_t bytes : counts(0, bytes_max)) {
    CAPTURE(bytes);
    round_trip(BlockShape::opaque(dtype, bytes), tables.get(),
               ByteVector(kv.begin(), kv.begin() + bytes));
  }
}

/// A model of two layers, and 1,024 tokens of it.
struct LinearSample {
  explicit LinearSample(DType dtype) : random(static_cast<std::uint64_t>(dtype)) {
    BlockShape small = layered_shape(dtype, "LSPHTC", 1);
    small.layers = 2;
    const LayeredBlocks blocks(random, small);
    parameters = std::make_shared<const LinearParameters>(blocks.fit());
    whole = small;
    whole.tokens = tokens_max;
    payload = blocks.source.block(whole, random, 3);
  }

  /// The first tokens of it.
  ByteVector first(const BlockShape& shape) const {
    ByteVector part(shape.raw_bytes());
    const LayerOrder order(shape, layered_rope.rotary_dim);
    std::vector<std::uint32_t> patterns(tokens_max);
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      for (const LayerOrder::Channel& channel : order.channels()) {
        LayerPlaces(whole, layer).load(payload, channel, patterns);
        LayerPlaces(shape, layer).store(channel, std::span(patterns).first(shape.tokens), part);
      }
    }
    return part;
  }

  Random random;
  BlockShape whole;
  ByteVector payload;
  std::shared_ptr<const LinearParameters> parameters;
};

void check_linear(DType dtype, Counts counts) {
  const LinearSample sample(dtype);
  std::size_t linear_frames = 0;
  for (const std::uint32_t tokens : counts(1, tokens_max)) {
    CAPTURE(tokens);
    BlockShape shape = sample.whole;
    shape.tokens = tokens;
    const ByteVector frame = round_trip(shape, sample.parameters.get(), sample.first(shape), 3);
    linear_frames += inspect_frame(frame)->codec == CodecId::linear;
  }
  CHECK(linear_frames > counts(1, tokens_max).size() / 2);
}

constexpr DType static_dtypes[] = {DType::bf16,     DType::fp16,     DType::fp32,
                                   DType::fp8_e4m3, DType::fp8_e5m2, DType::int8};
constexpr DType linear_dtypes[] = {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2};

}  // namespace

TEST_CASE("Blocks of this or that number of tokens are the same static frames at every level") {
  for (const DType dtype : static_dtypes) check_tokens(dtype, some_counts);
}
TEST_CASE("Blocks of this or that number of channels are the same static frames at every level") {
  for (const DType dtype : static_dtypes) check_channels(dtype, some_counts);
}
TEST_CASE("Values of this or that number of bytes are the same static frames at every level") {
  for (const DType dtype : static_dtypes) check_values(dtype, some_counts);
}
TEST_CASE("Blocks of this or that number of tokens are the same linear frames at every level") {
  for (const DType dtype : linear_dtypes) check_linear(dtype, some_counts);
}

TEST_SUITE_BEGIN("every");

TEST_CASE("Blocks of every number of tokens are the same static frames at every level" *
          doctest::skip()) {
  for (const DType dtype : static_dtypes) check_tokens(dtype, every_count);
}
TEST_CASE("Blocks of every number of channels are the same static frames at every level" *
          doctest::skip()) {
  for (const DType dtype : static_dtypes) check_channels(dtype, every_count);
}
TEST_CASE("Values of every number of bytes are the same static frames at every level" *
          doctest::skip()) {
  for (const DType dtype : static_dtypes) check_values(dtype, every_count);
}
TEST_CASE("Blocks of every number of tokens are the same linear frames at every level" *
          doctest::skip()) {
  for (const DType dtype : linear_dtypes) check_linear(dtype, every_count);
}

TEST_SUITE_END();
