// Frames of the linear codec, and the stored form of its model.
#include <doctest/doctest.h>

#include <cstring>

#include "codec/frame_format.h"
#include "codec/linear/linear_format.h"
#include "codec/linear/linear_parameters.h"
#include "kvstrata/checksum.h"
#include "tests/codec/layered_kv.h"
#include "tests/codec/round_trip.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr std::uint32_t position = 4096;

/// A model of two panels of channels, and a block that it was not fitted on.
struct Example {
  explicit Example(const char* name, DType dtype = DType::bf16, const char* axes = "LSPHTC")
      : Example(name, layered_shape(dtype, axes, 3)) {}
  Example(const char* name, const BlockShape& of)
      : random(test_seed(name)),
        blocks(random, of),
        shape(of),
        parameters(blocks.fit()),
        payload(blocks.source.block(shape, random, position)) {}

  ByteVector encode_with(const CodecParameters* with, ByteView bytes) const {
    return encode(shape, with, bytes, best_simd_level(), position);
  }
  ByteVector frame_of(ByteView bytes) const { return encode_with(&parameters, bytes); }
  ByteVector decode(ByteView frame) const {
    ByteVector decoded(shape.raw_bytes(), std::byte{0xee});
    const Status status = decode_frame(shape, &parameters, frame, decoded);
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
    return decoded;
  }
  bool decodes(ByteView frame, SimdLevel level = best_simd_level()) const {
    ByteVector decoded(shape.raw_bytes());
    return decode_frame(shape, &parameters, frame, decoded, level).ok();
  }

  Random random;
  LayeredBlocks blocks;
  BlockShape shape;
  LinearParameters parameters;
  ByteVector payload;
};

std::vector<DirectoryEntry> directory_of(const ByteVector& frame) {
  std::vector<DirectoryEntry> entries(inspect_frame(frame)->substreams);
  std::memcpy(entries.data(), frame.data() + sizeof(FrameHeader),
              entries.size() * sizeof(DirectoryEntry));
  return entries;
}

/// The frame with its header or directory changed, and summed again.
template <typename Change>
ByteVector resealed(const ByteVector& frame, Change&& change) {
  ByteVector changed = frame;
  FrameHeader header;
  std::memcpy(&header, changed.data(), sizeof header);
  std::vector<DirectoryEntry> entries = directory_of(frame);
  change(header, entries);
  const auto bytes = std::as_bytes(std::span(entries));
  std::ranges::copy(bytes, changed.begin() + sizeof header);
  header.directory_xxh3 = xxh3(bytes);
  header.header_xxh3 = header_checksum(header);
  std::memcpy(changed.data(), &header, sizeof header);
  return changed;
}

/// The stored model with a header changed and its body summed again.
template <typename Change>
Result<std::shared_ptr<const LinearParameters>> reparsed(ByteVector bytes, Change&& change) {
  LinearHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header, bytes);
  header.body_xxh3 = xxh3(ByteView(bytes).subspan(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  return LinearParameters::parse(bytes);
}

}  // namespace

TEST_CASE("A linear frame names its model and position, beats static and comes back") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    const Example example("linear frame", dtype);
    const ByteVector frame = example.frame_of(example.payload);
    const auto info = inspect_frame(frame);
    REQUIRE(info.ok());
    CHECK(info->codec == CodecId::linear);
    CHECK(info->first_position == position);
    CHECK(info->parameters_hash == example.parameters.content_hash());
    CHECK((example.decode(frame) == example.payload));
    const auto tables = fit_on(example.shape, example.payload);
    CHECK(frame.size() < example.encode_with(tables.get(), example.payload).size());
  }
}

TEST_CASE("A frame is decoded with the stored form of its model, in any layout, of any length") {
  const Example example("stored model");
  const ByteVector stored = example.parameters.serialize();
  const auto parsed = CodecParameters::parse(stored);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.error().message()));
  CHECK((*parsed)->codec() == CodecId::linear);
  CHECK((*parsed)->content_hash() == example.parameters.content_hash());
  CHECK(((*parsed)->serialize() == stored));
  Random random(test_seed("stored model blocks"));
  for (const char* axes : {"LSPHTC", "LSPTHC", "LSPHCT", "SLPHTC"}) {
    for (const std::uint32_t tokens : {16U, 17U, 100U}) {
      CAPTURE(axes);
      CAPTURE(tokens);
      BlockShape shape = layered_shape(DType::bf16, axes, 3);
      shape.tokens = tokens;
      const ByteVector payload = example.blocks.source.block(shape, random, 3);
      ByteVector frame(frame_bytes_max(shape));
      frame.resize(
          encode_frame(shape, parsed->get(), payload, 0, frame, best_simd_level(), 3).value());
      CHECK(inspect_frame(frame)->codec == CodecId::linear);
      ByteVector decoded(payload.size());
      CHECK(decode_frame(shape, &example.parameters, frame, decoded).ok());
      CHECK((decoded == payload));
    }
  }
}

TEST_CASE("Every level writes the same linear frames and reads them, whatever the tokens are") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    Example example("linear levels", dtype);
    for (const std::uint32_t tokens : {1U, 15U, 16U, 33U, 200U, 256U}) {
      CAPTURE(tokens);
      BlockShape shape = example.shape;
      shape.tokens = tokens;
      ByteVector payload = example.blocks.source.block(shape, example.random, position);
      for (std::size_t i = 0; i < payload.size(); i += 1 + example.random.below(400)) {
        payload[i] =
            static_cast<std::byte>(example.random.bits());  // tails, some of them no numbers
      }
      round_trip(shape, &example.parameters, payload, position);
    }
  }
}

TEST_CASE("Layers that gain nothing stay raw beside linear ones, wherever they are") {
  Example example("raw layer");
  const std::uint64_t layer_bytes = example.shape.raw_bytes() / example.shape.layers;
  const ByteVector payload = example.payload;
  for (std::uint32_t noisy = 0; noisy < example.shape.layers; ++noisy) {
    CAPTURE(noisy);
    example.payload = payload;
    for (std::uint64_t i = 0; i < layer_bytes; ++i) {
      example.payload[noisy * layer_bytes + i] = static_cast<std::byte>(example.random.bits());
    }
    const ByteVector frame = example.frame_of(example.payload);
    CHECK((example.decode(frame) == example.payload));
    const auto directory = directory_of(frame);
    for (std::uint32_t layer = 0; layer <= noisy; ++layer) {
      const SubstreamKind kind = layer < noisy ? SubstreamKind::linear : SubstreamKind::raw;
      CHECK(directory[2 * layer].kind == kind);
      CHECK(directory[2 * layer + 1].kind == kind);
      if (layer < noisy) CHECK(directory[2 * layer + 1].encoded_bytes == 0);
    }
  }
  for (std::byte& byte : example.payload) byte = static_cast<std::byte>(example.random.bits());
  const ByteVector raw = example.frame_of(example.payload);
  CHECK(inspect_frame(raw)->codec == CodecId::raw);
  CHECK(inspect_frame(raw)->first_position == 0);
  CHECK((example.decode(raw) == example.payload));
}

TEST_CASE("One sub-stream of a linear frame is decoded with the layers below it") {
  const Example example("linear sub-stream");
  const ByteVector frame = example.frame_of(example.payload);
  for (std::uint32_t index = 0; index < example.shape.substreams(); ++index) {
    ByteVector decoded(example.payload.size(), std::byte{0xee});
    REQUIRE(decode_substream(example.shape, &example.parameters, frame, index, decoded).ok());
    const std::size_t end = example.shape.substream_bytes(0) * 2 * (index / 2 + 1);
    CHECK(std::equal(decoded.begin(), decoded.begin() + static_cast<std::ptrdiff_t>(end),
                     example.payload.begin()));
  }
}

TEST_CASE("Any cut or changed byte of a linear frame is refused") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    CAPTURE(to_string(dtype));
    BlockShape shape = layered_shape(dtype, "LSPHTC", 1);
    shape.layers = 2;
    const Example example("damaged linear frame", shape);
    ByteVector frame = example.frame_of(example.payload);
    REQUIRE(inspect_frame(frame)->codec == CodecId::linear);
    for (const SimdLevel level : {SimdLevel::avx2, SimdLevel::avx512}) {  // the scalar one is slow
      CAPTURE(static_cast<int>(level));
      CHECK(example.decodes(frame, level));
      for (std::size_t size = 0; size < frame.size(); ++size) {
        CAPTURE(size);
        CHECK_FALSE(example.decodes(ByteView(frame).first(size), level));
      }
      for (std::size_t at = 0; at < frame.size(); ++at) {
        CAPTURE(at);
        for (const std::byte by : {std::byte{1} << at % 8, std::byte{0xff}}) {
          frame[at] ^= by;
          CHECK_FALSE(example.decodes(frame, level));
          frame[at] ^= by;
        }
      }
    }
  }
}

TEST_CASE("A directory that contradicts itself is refused before anything is decoded") {
  using Entries = std::vector<DirectoryEntry>;
  const Example example("linear directory");
  const ByteVector frame = example.frame_of(example.payload);
  const auto refuses = [&](auto&& change) { return !example.decodes(resealed(frame, change)); };
  CHECK_FALSE(refuses([](FrameHeader&, Entries&) {}));
  CHECK(refuses([](FrameHeader&, Entries& entries) { entries[1].kind = SubstreamKind::raw; }));
  CHECK(refuses([](FrameHeader&, Entries& entries) { entries[0].table = 1; }));
  CHECK(refuses([](FrameHeader&, Entries& entries) { std::swap(entries[0], entries[1]); }));
  CHECK(refuses([](FrameHeader&, Entries& entries) { --entries[0].encoded_bytes; }));
  CHECK(refuses([](FrameHeader&, Entries& entries) {
    entries[0].encoded_bytes += entries[2].encoded_bytes;
    entries[2].encoded_bytes = 0;
  }));
  CHECK(refuses([](FrameHeader& header, Entries&) { ++header.first_position; }));
  CHECK(refuses([](FrameHeader& header, Entries&) { header.codec = 1; }));
  CHECK(refuses([](FrameHeader& header, Entries&) { header.parameters_hash ^= 1; }));
}

TEST_CASE("Parameters of another codec or shape are refused, not misread") {
  const Example example("other parameters");
  const ByteVector frame = example.frame_of(example.payload);
  const auto tables = fit_on(example.shape, example.payload);
  ByteVector decoded(example.payload.size());
  for (const CodecParameters* wrong : {static_cast<const CodecParameters*>(tables.get()),
                                       static_cast<const CodecParameters*>(nullptr)}) {
    const Status status = decode_frame(example.shape, wrong, frame, decoded);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind() == ErrorKind::invalid_argument);
  }
  const BlockShape other = layered_shape(DType::bf16, "LSPHTC", 2);
  const ByteVector payload(other.raw_bytes());
  ByteVector room(frame_bytes_max(other));
  CHECK_FALSE(encode_frame(other, &example.parameters, payload, 0, room).ok());
}

TEST_CASE("Whatever it is fitted on, a model can be read back and serves, or there is none") {
  Random random(test_seed("fit on anything"));
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    const BlockShape shape = layered_shape(dtype);
    for (int kind = 0; kind < 6; ++kind) {
      CAPTURE(to_string(dtype));
      CAPTURE(kind);
      std::vector<ByteVector> blocks(6, ByteVector(shape.raw_bytes()));
      for (ByteVector& block : blocks) {
        for (std::size_t i = 0; i < block.size(); ++i) {
          const std::byte kinds[] = {std::byte{0},
                                     std::byte{0xff},
                                     std::byte{0x7f},
                                     static_cast<std::byte>(random.bits()),
                                     static_cast<std::byte>(i % 2 == 0 ? 0x80 : 0x7f),
                                     static_cast<std::byte>(i)};
          block[i] = kinds[kind];
        }
      }
      std::vector<PlacedPayload> payloads;
      for (const ByteVector& block : blocks) payloads.push_back({block, 32});
      const auto fitted = LinearParameters::fit(shape, payloads, {.rope = layered_rope});
      if (!fitted) continue;
      CHECK(LinearParameters::parse((*fitted)->serialize()).ok());
      ByteVector frame(frame_bytes_max(shape)), decoded(shape.raw_bytes());
      frame.resize(encode_frame(shape, fitted->get(), blocks[0], 0, frame).value());
      CHECK(decode_frame(shape, fitted->get(), frame, decoded).ok());
      CHECK((decoded == blocks[0]));
    }
  }
}

TEST_CASE("A stored model that was cut, changed or made up is refused within its own size") {
  const Example example("damaged model");
  const ByteVector stored = example.parameters.serialize();
  for (std::size_t size = 0; size < stored.size(); size += size < 100 ? 1 : 4099) {
    CHECK_FALSE(LinearParameters::parse(ByteView(stored).first(size)).ok());
  }
  for (std::size_t at = 0; at < stored.size(); at += at < 100 ? 1 : 997) {
    ByteVector changed = stored;
    changed[at] ^= std::byte{0x40};
    CHECK_FALSE(LinearParameters::parse(changed).ok());
  }
  const auto refuses = [&](auto&& change) { return !reparsed(stored, change).ok(); };
  CHECK_FALSE(refuses([](LinearHeader&, ByteVector&) {}));
  CHECK(refuses([](LinearHeader& header, ByteVector&) { header.layers = 1024; }));
  CHECK(refuses([](LinearHeader& header, ByteVector&) { header.layers = 0; }));
  CHECK(refuses([](LinearHeader& header, ByteVector&) { header.kv_heads = 0x80000000; }));
  CHECK(refuses([](LinearHeader& header, ByteVector&) { header.head_dim_v = 11; }));
  CHECK(refuses([](LinearHeader& header, ByteVector&) { header.rotary_dim = 14; }));
  CHECK(refuses([](LinearHeader& header, ByteVector&) {
    header.dtype = static_cast<std::uint8_t>(DType::fp32);
  }));
  CHECK(refuses([](LinearHeader&, ByteVector& bytes) { bytes.push_back(std::byte{0}); }));
  const std::size_t layers_at = sizeof(LinearHeader) + CellTables::serialized_bytes + 4 * 4;
  CHECK(refuses([&](LinearHeader&, ByteVector& bytes) { bytes[layers_at] = std::byte{1}; }));
  CHECK(refuses([&](LinearHeader&, ByteVector& bytes) {  // a mean that is no number
    std::memset(bytes.data() + layers_at + sizeof(LinearLayerHeader), 0xff, 4);
  }));
  const auto version =
      reparsed(stored, [](LinearHeader& header, ByteVector&) { header.version = 2; });
  CHECK(version.error().kind() == ErrorKind::unsupported);
}
