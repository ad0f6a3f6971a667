// Linear frames and models from anybody: every input is an error or decodes, the same at every
// level of machine code; and any payload comes back bit-exact, whatever the model says.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/linear/linear_format.h"
#include "codec/linear/linear_parameters.h"
#include "kvstrata/checksum.h"
#include "tests/codec/layered_kv.h"
#include "tests/fuzz/frame_checks.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

/// A fitted model of each dtype, small, so that many inputs are tried.
struct Example {
  BlockShape shape;
  ByteVector payload, stored;
  std::shared_ptr<const LinearParameters> parameters;

  explicit Example(DType dtype) {
    Random random(static_cast<std::uint64_t>(dtype));
    BlockShape small = layered_shape(dtype, "LSPHTC", 1);
    small.layers = 2;
    const LayeredBlocks blocks(random, small);
    shape = small;
    payload = blocks.blocks.front();
    parameters = std::make_shared<const LinearParameters>(blocks.fit());
    stored = parameters->serialize();
  }
};

const Example& example(std::uint8_t choice) {
  static const std::array<Example, 4> all{Example(DType::bf16), Example(DType::fp16),
                                          Example(DType::fp8_e4m3), Example(DType::fp8_e5m2)};
  return all[choice % all.size()];
}

/// A model with some of its bytes changed, and summed again: what is not refused must serve.
std::shared_ptr<const LinearParameters> changed_model(const Example& from, ByteView changes) {
  ByteVector bytes = from.stored;
  const std::size_t body = bytes.size() - sizeof(LinearHeader);
  for (std::size_t i = 0; i + 3 < changes.size(); i += 4) {
    const std::size_t at = load_le<std::uint16_t>(changes.data() + i) * std::size_t{37} % body;
    bytes[sizeof(LinearHeader) + at] = changes[i + 2];
    bytes[sizeof(LinearHeader) + (at + 1) % body] ^= changes[i + 3];
  }
  LinearHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.body_xxh3 = xxh3(ByteView(bytes).subspan(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  const auto parsed = LinearParameters::parse(bytes);
  if (!parsed) return nullptr;
  KV_CHECK((*parsed)->serialize() == bytes, "serialising changed the model");
  return *parsed;
}

/// What the input makes of a scalar of the model's kind: nothing, another, or a little.
std::uint32_t changed(std::uint32_t pattern, std::byte by, std::size_t at, std::uint8_t how) {
  const auto change = static_cast<std::uint32_t>(by);
  switch (how % 4) {
    case 0: return pattern;
    case 1: return change * 0x101U;
    case 2: return at % 61 == 0 ? change * 0x101U : pattern;
    default: return pattern ^ (change & 3U);
  }
}

ByteVector payload_of(const Example& from, const BlockShape& shape, ByteView input,
                      std::uint8_t how) {
  ByteVector payload(shape.raw_bytes());
  const LayerOrder order(shape, layered_rope.rotary_dim);
  std::vector<std::uint32_t> patterns(from.shape.tokens);
  std::size_t at = 0;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const LayerPlaces places(from.shape, layer), to(shape, layer);
    for (const LayerOrder::Channel& channel : order.channels()) {
      places.load(from.payload, channel, patterns);
      for (std::uint32_t& pattern : patterns) {
        if (!input.empty()) pattern = changed(pattern, input[at % input.size()], at, how);
        ++at;
      }
      to.store(channel, std::span(patterns).first(shape.tokens), payload);
    }
  }
  return payload;
}

}  // namespace

/// An input is one case: eight bytes choose a shape and what is tried, the rest is the frame, the
/// model, the payload or the damage.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choice_bytes = 8, damage_bytes = 30;
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  if (size < choice_bytes) return 0;
  const Example& from = example(data[0]);
  static const char* const layouts[] = {"LSPHTC", "LSPTHC", "LSPHCT", "SLPHTC"};
  BlockShape shape = from.shape;
  shape.tokens = 1 + data[1] % from.shape.tokens;
  shape.layout.k_axes = shape.layout.v_axes = layouts[data[2] % 4];
  const std::uint32_t position = data[7] >= 128 ? 0 : load_le<std::uint32_t>(input.data() + 3);
  const ByteView rest = input.subspan(choice_bytes);
  const ByteView damage = rest.first(std::min(rest.size(), damage_bytes));
  const std::uint8_t what = data[7] % 16;
  if (what == 0) {
    (void)CodecParameters::parse(rest);
  } else if (what == 1) {
    check_decode({shape, from.parameters}, rest);
  } else {
    // Another payload altogether makes a raw frame, of which damage shows nothing.
    const std::uint8_t how = what <= 8 ? 0 : data[7] / 16;
    const ByteVector payload = payload_of(from, shape, rest, how);
    const auto model = what <= 13 ? from.parameters : changed_model(from, damage);
    const Coding coding{shape, model, position};
    if (what <= 8) {
      check_decode(coding, damaged_frame(coding, payload, damage));
    } else if (model != nullptr) {
      check_round_trip(coding, payload);
    }
  }
  return 0;
}
