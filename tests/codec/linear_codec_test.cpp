// The linear codec on a small made-up model whose layers tell of each other: what is put in comes
// back, whatever it is, and costs less than without prediction.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/frame_format.h"
#include "codec/linear/cell_coder.h"
#include "codec/linear/linear_parameters.h"
#include "codec/linear/rope_search.h"
#include "tests/base/seed.h"
#include "tests/codec/layered_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

ByteVector frame_of(const LinearParameters& parameters, const BlockShape& shape,
                    const PlacedPayload& payload) {
  ByteVector frame(frame_bytes_max(shape));
  frame.resize(encode_frame(shape, &parameters, payload.bytes, 0, frame, best_simd_level(),
                            payload.first_position)
                   .value());
  return frame;
}

/// Its chains, without what they and the frame begin with.
std::size_t chain_bytes(const LinearParameters& parameters, const BlockShape& shape,
                        const PlacedPayload& payload) {
  constexpr std::size_t chain_head = 12 + 4 * cell_lanes_few;
  return frame_of(parameters, shape, payload).size() - sizeof(FrameHeader) -
         shape.substreams() * sizeof(DirectoryEntry) - shape.layers * chain_head;
}

void check_round_trip(const LinearParameters& parameters, const BlockShape& shape,
                      const PlacedPayload& payload) {
  ByteVector decoded(payload.bytes.size());
  const ByteVector frame = frame_of(parameters, shape, payload);
  const Status status = decode_frame(shape, &parameters, frame, decoded);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  CHECK(std::ranges::equal(decoded, payload.bytes));
}

}  // namespace

TEST_CASE("What layers tell of each other saves bits, in every dtype, and all comes back") {
  Random random(test_seed("linear"));
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    const LayeredBlocks subject(random, layered_shape(dtype));
    const LinearParameters model(subject.fit());
    const ByteVector block = subject.source.block(subject.shape, random, 96);
    check_round_trip(model, subject.shape, {block, 96});
    // 6 numbers are behind the 192 scalars of a token; most of them follow from the others.
    CHECK(chain_bytes(model, subject.shape, {block, 96}) < block.size() * 7 / 10);
  }
}

TEST_CASE("Layouts differ in where scalars lie, not in what they cost") {
  Random random(test_seed("linear layouts"));
  for (const char* axes : {"LSPTHC", "LSPHCT", "SLPHTC"}) {
    CAPTURE(axes);
    const LayeredBlocks subject(random, layered_shape(DType::bf16, axes));
    const LinearParameters model(subject.fit());
    check_round_trip(model, subject.shape, {subject.source.block(subject.shape, random, 7), 7});
  }
}

TEST_CASE("Blocks that are nothing like what was fitted come back, too") {
  Random random(test_seed("linear strangers"));
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    const LayeredBlocks subject(random, layered_shape(dtype));
    const LinearParameters model(subject.fit());
    ByteVector block(subject.shape.raw_bytes());
    check_round_trip(model, subject.shape, {block, 0});  // zeros
    for (std::byte& byte : block) byte = static_cast<std::byte>(random.bits());
    check_round_trip(model, subject.shape, {block, 4'000'000'000});  // any pattern, at any position
    std::ranges::fill(block, std::byte{0x7f});
    check_round_trip(model, subject.shape, {block, 5});
    block = subject.blocks[0];
    std::fill_n(block.begin() + 100, 64, std::byte{0xff});  // some that are no numbers
    check_round_trip(model, subject.shape, {block, 0});
  }
}

TEST_CASE("A fit of the same blocks is the same model, and says what it can't serve") {
  Random random(test_seed("same fit"));
  const LayeredBlocks subject(random, layered_shape(DType::bf16));
  const ByteVector once = LinearParameters(subject.fit()).serialize();
  CHECK((LinearParameters(subject.fit()).serialize() == once));
  BlockShape shape = layered_shape(DType::int8);
  CHECK_FALSE(fit_linear(shape, subject.payloads, {}).ok());
  CHECK_FALSE(fit_linear(BlockShape::opaque(DType::bf16, 100), subject.payloads, {}).ok());
  CHECK_FALSE(fit_linear(subject.shape, {}, {}).ok());
  shape = layered_shape(DType::bf16);
  shape.tokens = 1;  // the first of a sequence is left out
  const ByteVector token(shape.raw_bytes());
  const std::vector<PlacedPayload> first_tokens(3, PlacedPayload{token, 0});
  CHECK_FALSE(fit_linear(shape, first_tokens, {}).ok());
  CHECK_FALSE(fit_linear(subject.shape, subject.payloads, {.rope = {.rotary_dim = 14}}).ok());
  CHECK_FALSE(fit_linear(subject.shape, subject.payloads, {.layers_below = 9}).ok());
}

TEST_CASE("Channels that never change, or say the same, spoil nothing for the others") {
  Random random(test_seed("constant channels"));
  LayeredBlocks subject(random, layered_shape(DType::bf16));
  const LayerOrder order(subject.shape, layered_rope.rotary_dim);
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
  const LinearParameters model(subject.fit());
  ByteVector block = subject.source.block(subject.shape, random, 96);
  flatten(block);
  check_round_trip(model, subject.shape, {block, 96});
  CHECK(chain_bytes(model, subject.shape, {block, 96}) < block.size() * 7 / 10);
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

TEST_CASE("A fit ends when it is told to") {
  Random random(test_seed("cancelled fit"));
  const LayeredBlocks subject(random, layered_shape(DType::bf16));
  const std::atomic<bool> cancelled = true;
  const auto fitted = fit_linear(subject.shape, subject.payloads, {.cancelled = &cancelled});
  REQUIRE_FALSE(fitted.ok());
  CHECK(fitted.error().kind() == ErrorKind::cancelled);
}

TEST_CASE("How K was turned is found from it, and that it was not") {
  Random random(test_seed("rope search"));
  for (const double theta : {1e4, 5e5, 1e6}) {
    for (const std::uint32_t rotary_dim : {0U, 16U, 32U}) {
      CAPTURE(theta);
      CAPTURE(rotary_dim);
      const BlockShape shape = block_shape(DType::bf16, 2, 2, 32, 64);
      const Rope turns(RopeSpec{.rotary_dim = rotary_dim, .theta = theta});
      const LayerOrder order(shape, rotary_dim);
      std::vector<float> means(order.size());
      for (float& mean : means) mean = 2 * bell(random);
      std::vector<ByteVector> blocks;
      std::vector<PlacedPayload> payloads;
      for (std::uint32_t b = 0; b < 12; ++b) {
        ByteVector& block = blocks.emplace_back(shape.raw_bytes());
        for (std::uint32_t l = 0; l < shape.layers; ++l) {
          const LayerPlaces places(shape, l);
          for (std::uint32_t t = 0; t < shape.tokens; ++t) {
            for (std::size_t c = 0; c < order.size(); ++c) {
              const LayerOrder::Channel& channel = order.channels()[c];
              float value = means[c] + bell(random);
              if (channel.pair >= 0) {
                const std::size_t first = channel.first_of_pair ? c : c - 1;
                const Turn turn = turns.at(static_cast<std::uint32_t>(channel.pair), 64 * b + t);
                value = channel.first_of_pair
                            ? means[first] * turn.cosine - means[first + 1] * turn.sine
                            : means[first + 1] * turn.cosine + means[first] * turn.sine;
                value += bell(random);
              }
              const std::uint32_t bits = pattern_of(DType::bf16, value);
              std::memcpy(block.data() + places.at(channel, t), &bits, 2);
            }
          }
        }
      }
      for (std::uint32_t b = 0; b < 12; ++b) payloads.push_back({blocks[b], 64 * b});
      const RopeSpec found = find_rope(shape, payloads);
      CHECK(found.rotary_dim == rotary_dim);
      if (rotary_dim != 0) CHECK(found.theta == theta);
    }
  }
}
