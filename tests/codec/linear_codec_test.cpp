// The linear codec on a small made-up model whose layers tell of each other: what is put in comes
// back, whatever it is, and costs less than without prediction.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "codec/linear/linear_model.h"
#include "codec/linear/linear_pass.h"
#include "round_trip.h"
#include "synthetic_kv.h"
#include "tests/base/seed.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr RopeSpec rope{.rotary_dim = 8, .theta = 1000};

BlockShape small_shape(DType dtype, const char* axes = "LSPHTC") {
  return block_shape(dtype, 4, 2, 12, 32, axes);
}

/// A normal number of mean 0 and deviation 1, nearly.
float bell(Random& random) {
  float sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<float>(random.below(1U << 16)) / (1U << 16);
  return sum;
}

/// Blocks of a model of 6 hidden numbers a token, of which all layers show mixtures, and noise.
class SmallModel {
 public:
  explicit SmallModel(Random& random) {
    for (float& weight : weights_) weight = bell(random);
  }

  ByteVector block(const BlockShape& shape, Random& random, std::uint32_t first_position) const {
    ByteVector payload(shape.raw_bytes());
    const LayerOrder order(shape, rope.rotary_dim);
    const Rope turns(rope);
    std::vector<std::array<float, 6>> hidden(shape.tokens);
    for (auto& numbers : hidden) {
      for (float& number : numbers) number = bell(random);
    }
    for (std::uint32_t l = 0; l < shape.layers; ++l) {
      const LayerPlaces places(shape, l);
      for (std::uint32_t t = 0; t < shape.tokens; ++t) {
        std::vector<float> values;
        for (std::size_t c = 0; c < order.size(); ++c) {
          float value = 0.03F * bell(random);
          for (std::size_t h = 0; h < 6; ++h) {
            value += hidden[t][h] * weights_[(l * 64 + c) * 6 + h];
          }
          values.push_back(value);
        }
        for (std::size_t c = 0; c < order.size(); ++c) {
          const LayerOrder::Channel& channel = order.channels()[c];
          if (channel.first_of_pair) {
            const Turn turn =
                turns.at(static_cast<std::uint32_t>(channel.pair), first_position + t);
            const float a = values[c], b = values[c + 1];
            values[c] = a * turn.cosine - b * turn.sine;
            values[c + 1] = b * turn.cosine + a * turn.sine;
          }
          const std::uint32_t bits = pattern_of(shape.dtype, values[c]);
          std::memcpy(payload.data() + places.at(channel, t), &bits, bytes_per_scalar(shape.dtype));
        }
      }
    }
    return payload;
  }

 private:
  std::array<float, 4 * 64 * 6> weights_{};
};

struct Subject {
  Subject(Random& random, const BlockShape& of) : shape(of), source(random) {
    for (std::uint32_t i = 0; i < 20; ++i) {
      blocks.push_back(source.block(shape, random, i % 3 * shape.tokens));
    }
    for (std::uint32_t i = 0; i < 20; ++i) payloads.push_back({blocks[i], i % 3 * shape.tokens});
  }
  LinearModel fit() const {
    return fit_linear(shape, payloads, {.rope = rope, .layers_below = 2}).value();
  }

  BlockShape shape;
  SmallModel source;
  std::vector<ByteVector> blocks;
  std::vector<PlacedPayload> payloads;
};

void check_round_trip(const LinearModel& model, const PlacedPayload& payload) {
  const ByteVector encoded = encode_linear(model, payload);
  ByteVector decoded(payload.bytes.size());
  const Status status = decode_linear(model, encoded, payload.first_position, decoded);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  CHECK(std::ranges::equal(decoded, payload.bytes));
}

}  // namespace

TEST_CASE("What layers tell of each other saves bits, in every dtype, and all comes back") {
  Random random(test_seed("linear"));
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    const Subject subject(random, small_shape(dtype));
    const LinearModel model = subject.fit();
    const ByteVector block = subject.source.block(subject.shape, random, 96);
    check_round_trip(model, {block, 96});
    // 6 numbers are behind the 192 scalars of a token; most of them follow from the others.
    const ByteVector encoded = encode_linear(model, {block, 96});
    const std::size_t heads = subject.shape.layers * 44;  // lengths and states
    CHECK(encoded.size() - heads < block.size() * 7 / 10);
  }
}

TEST_CASE("Layouts differ in where scalars lie, not in what they cost") {
  Random random(test_seed("linear layouts"));
  for (const char* axes : {"LSPTHC", "LSPHCT", "SLPHTC"}) {
    CAPTURE(axes);
    const Subject subject(random, small_shape(DType::bf16, axes));
    const LinearModel model = subject.fit();
    check_round_trip(model, {subject.source.block(subject.shape, random, 7), 7});
  }
}

TEST_CASE("Blocks that are nothing like what was fitted come back, too") {
  Random random(test_seed("linear strangers"));
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    const Subject subject(random, small_shape(dtype));
    const LinearModel model = subject.fit();
    ByteVector block(subject.shape.raw_bytes());
    check_round_trip(model, {block, 0});  // zeros
    for (std::byte& byte : block) byte = static_cast<std::byte>(random.bits());
    check_round_trip(model, {block, 4'000'000'000});  // any pattern, at any position
    std::ranges::fill(block, std::byte{0x7f});
    check_round_trip(model, {block, 5});
    block = subject.blocks[0];
    std::fill_n(block.begin() + 100, 64, std::byte{0xff});  // some that are no numbers
    check_round_trip(model, {block, 0});
  }
}

TEST_CASE("Cut or changed bytes are refused or give another payload, and are read within bounds") {
  Random random(test_seed("broken linear"));
  const Subject subject(random, small_shape(DType::bf16));
  const LinearModel model = subject.fit();
  const ByteVector encoded = encode_linear(model, subject.payloads[1]);
  ByteVector decoded(subject.blocks[1].size());
  const std::uint32_t position = subject.payloads[1].first_position;
  for (std::size_t size = 0; size < encoded.size(); size += 7) {
    CHECK_FALSE(decode_linear(model, ByteView(encoded).first(size), position, decoded).ok());
  }
  for (int i = 0; i < 300; ++i) {
    ByteVector damaged = encoded;
    damaged[random.below(damaged.size())] ^= static_cast<std::byte>(1U << random.below(8));
    const Status status = decode_linear(model, damaged, position, decoded);
    CHECK((!status.ok() || decoded != subject.blocks[1]));
  }
}

TEST_CASE("A fit of the same blocks is the same model, and says what it can't serve") {
  Random random(test_seed("same fit"));
  const Subject subject(random, small_shape(DType::bf16));
  const ByteVector once = encode_linear(subject.fit(), subject.payloads[0]);
  CHECK((encode_linear(subject.fit(), subject.payloads[0]) == once));
  BlockShape shape = small_shape(DType::int8);
  CHECK_FALSE(fit_linear(shape, subject.payloads, {}).ok());
  CHECK_FALSE(fit_linear(BlockShape::opaque(DType::bf16, 100), subject.payloads, {}).ok());
  CHECK_FALSE(fit_linear(subject.shape, {}, {}).ok());
  CHECK_FALSE(fit_linear(subject.shape, subject.payloads, {.rope = {.rotary_dim = 14}}).ok());
  CHECK_FALSE(fit_linear(subject.shape, subject.payloads, {.layers_below = 9}).ok());
}

TEST_CASE("Channels that never change, or say the same, spoil nothing for the others") {
  Random random(test_seed("constant channels"));
  Subject subject(random, small_shape(DType::bf16));
  const LayerOrder order(subject.shape, rope.rotary_dim);
  const auto flatten = [&](ByteVector& block) {
    for (std::uint32_t l = 0; l < subject.shape.layers; ++l) {
      const LayerPlaces places(subject.shape, l);
      for (std::uint32_t t = 0; t < subject.shape.tokens; ++t) {
        const auto& channels = order.channels();
        std::memset(block.data() + places.at(channels[2], t), 0, 2);      // always 0
        std::memset(block.data() + places.at(channels[30], t), 0x3f, 2);  // always 0.747
        std::memcpy(block.data() + places.at(channels[31], t),
                    block.data() + places.at(channels[33], t), 2);  // twins
      }
    }
  };
  for (ByteVector& block : subject.blocks) flatten(block);
  const LinearModel model = subject.fit();
  ByteVector block = subject.source.block(subject.shape, random, 96);
  flatten(block);
  check_round_trip(model, {block, 96});
  const std::size_t heads = subject.shape.layers * 44;
  CHECK(encode_linear(model, {block, 96}).size() - heads < block.size() * 7 / 10);
}

TEST_CASE("Turns are those of the cosine, at any position") {
  const Rope turns({.rotary_dim = 64, .theta = 100'000});
  for (const std::uint32_t position : {0U, 1U, 500U, 100'000U}) {
    for (std::uint32_t pair = 0; pair < 32; ++pair) {
      const double angle = position * std::pow(100'000.0, -2.0 * pair / 64);
      const Turn turn = turns.at(pair, position);
      CHECK(turn.cosine == doctest::Approx(std::cos(angle)).epsilon(1e-4));
      CHECK(turn.sine == doctest::Approx(std::sin(angle)).epsilon(1e-4));
    }
  }
}
