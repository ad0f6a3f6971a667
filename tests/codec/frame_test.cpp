#include <doctest/doctest.h>

#include <cstring>

#include "codec/frame_format.h"
#include "codec/scalar_format.h"
#include "codec/static_format.h"
#include "kvstrata/checksum.h"
#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr DType all_dtypes[] = {DType::bf16,     DType::fp16, DType::fp8_e4m3,
                                DType::fp8_e5m2, DType::int8, DType::fp32};

/// A frame of two layers, its shape, tables and payload.
struct Example {
  BlockShape shape = block_shape(DType::bf16, 2, 2, 16, 64);
  ByteVector payload = synthetic_kv(shape, 1, 2);
  std::shared_ptr<const StaticTables> tables = fit_on(shape, payload);
  ByteVector frame = encode(shape, tables.get(), payload);

  Status decode(ByteView bytes) const {
    ByteVector decoded(payload.size());
    return decode_frame(shape, tables.get(), bytes, decoded);
  }
};

/// A frame whose K is static, with escapes and padding, and whose V is raw; of as many tokens as
/// that takes.
struct SmallFrame {
  explicit SmallFrame(DType dtype) : shape(block_shape(dtype, 1, 1, 16, 20)) {
    shape.head_dim_v = 1;
    do {
      shape.tokens += 40;
      payload = synthetic_kv(shape, 1, 2);
      for (std::size_t i = 0; i < payload.size(); i += 149) payload[i] = static_cast<std::byte>(i);
      tables = fit_on(shape, synthetic_kv(shape, 1, 3));
      frame = encode(shape, tables.get(), payload);
    } while (!is_mixed());
  }

  BlockShape shape;
  ByteVector payload, frame;
  std::shared_ptr<const StaticTables> tables;

 private:
  bool is_mixed() const {
    DirectoryEntry entries[2];
    std::memcpy(entries, frame.data() + sizeof(FrameHeader), sizeof entries);
    StaticHeader header;
    std::memcpy(&header, frame.data() + sizeof(FrameHeader) + sizeof entries, sizeof header);
    return entries[0].kind == SubstreamKind::static_coded && header.escapes > 0 &&
           entries[1].kind == SubstreamKind::raw;
  }
};

/// A frame whose header was changed by `change` and summed again.
template <typename Change>
ByteVector with_header(const ByteVector& frame, Change&& change) {
  ByteVector changed = frame;
  FrameHeader header;
  std::memcpy(&header, changed.data(), sizeof header);
  change(header);
  header.header_xxh3 = header_checksum(header);
  std::memcpy(changed.data(), &header, sizeof header);
  return changed;
}

ErrorKind kind_of(const Status& status) {
  REQUIRE(!status.ok());
  return status.error().kind();
}

}  // namespace

TEST_CASE("A frame without tables is raw and holds the payload in memory order") {
  const Example example;
  const ByteVector frame = round_trip(example.shape, nullptr, example.payload);
  CHECK(inspect_frame(frame)->codec == CodecId::raw);
  CHECK(frame.size() == frame_bytes_max(example.shape));
  const std::size_t data_at = frame.size() - example.payload.size();
  CHECK(std::memcmp(frame.data() + data_at, example.payload.data(), example.payload.size()) == 0);
}

TEST_CASE("A static frame names its tables and is smaller by more than a fifth") {
  const Example example;
  const auto info = inspect_frame(example.frame);
  CHECK(info->codec == CodecId::static_tables);
  CHECK(info->parameters_hash == example.tables->content_hash());
  CHECK(example.frame.size() * 5 < example.payload.size() * 4);
  round_trip(example.shape, example.tables.get(), example.payload);
}

TEST_CASE("A payload in which nothing gains becomes a raw frame") {
  const Example example;
  std::mt19937_64 random(1);
  ByteVector noise(example.payload.size());
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  const ByteVector frame = round_trip(example.shape, example.tables.get(), noise);
  CHECK(inspect_frame(frame)->codec == CodecId::raw);
  CHECK(inspect_frame(frame)->parameters_hash == 0);
  CHECK(frame.size() == frame_bytes_max(example.shape));
}

TEST_CASE("A sub-stream that does not gain stays raw beside static ones") {
  const Example example;
  std::mt19937_64 random(1);
  ByteVector payload = example.payload;
  const std::uint64_t noisy = example.shape.substream_bytes(0);
  for (std::size_t i = 0; i < noisy; ++i) payload[i] = static_cast<std::byte>(random());
  const ByteVector frame = round_trip(example.shape, example.tables.get(), payload);
  DirectoryEntry entries[2];
  std::memcpy(entries, frame.data() + sizeof(FrameHeader), sizeof entries);
  CHECK(entries[0].kind == SubstreamKind::raw);
  CHECK(entries[0].encoded_bytes == noisy);
  CHECK(entries[1].kind == SubstreamKind::static_coded);
}

TEST_CASE("A sub-stream is decoded alone and leaves the others untouched") {
  const Example example;
  for (std::uint32_t index = 0; index < example.shape.substreams(); ++index) {
    ByteVector decoded(example.payload.size(), std::byte{0xee});
    REQUIRE(
        decode_substream(example.shape, example.tables.get(), example.frame, index, decoded).ok());
    const std::uint64_t bytes = example.shape.substream_bytes(index);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const bool inside = i / bytes == index;
      REQUIRE(decoded[i] == (inside ? example.payload[i] : std::byte{0xee}));
    }
  }
}

TEST_CASE("The parts of a frame are the whole, however many there are") {
  const Example example;
  for (std::uint32_t of = 1; of < 8; ++of) {
    CAPTURE(of);
    ByteVector decoded(example.payload.size(), std::byte{0xee});
    for (std::uint32_t number = of; number-- > 0;) {
      REQUIRE(decode_frame_part(example.shape, example.tables.get(), example.frame, decoded,
                                {number, of})
                  .ok());
    }
    CHECK((decoded == example.payload));
    CHECK(kind_of(decode_frame_part(example.shape, example.tables.get(), example.frame, decoded,
                                    {of, of})) == ErrorKind::invalid_argument);
  }
}

TEST_CASE("Damage is found by the part that has it") {
  const Example example;
  ByteVector damaged = example.frame;
  damaged.back() ^= std::byte{1};  // of the last sub-stream
  ByteVector decoded(example.payload.size());
  const auto part = [&](std::uint32_t number) {
    return decode_frame_part(example.shape, example.tables.get(), damaged, decoded, {number, 2});
  };
  CHECK(part(0).ok());
  CHECK(kind_of(part(1)) == ErrorKind::corrupt);
}

TEST_CASE("A frame that is cut, longer or changed in any byte is corrupt at every level") {
  for (const DType dtype : all_dtypes) {
    const SmallFrame small(dtype);
    ByteVector decoded(small.shape.raw_bytes());
    for (const SimdLevel level : all_levels) {
      CAPTURE(to_string(dtype));
      CAPTURE(static_cast<int>(level));
      const auto decode = [&](ByteView bytes) {
        return decode_frame(small.shape, small.tables.get(), bytes, decoded, level);
      };
      REQUIRE(decode(small.frame).ok());
      CHECK((decoded == small.payload));
      for (std::size_t size = 0; size < small.frame.size(); ++size) {
        CAPTURE(size);
        CHECK(kind_of(decode(ByteView(small.frame).first(size))) == ErrorKind::corrupt);
      }
      ByteVector changed = small.frame;
      for (std::size_t at = 0; at < changed.size(); ++at) {
        CAPTURE(at);
        for (const std::byte by : {std::byte{1} << at % 8, std::byte{0xff}}) {
          changed[at] ^= by;
          CHECK(kind_of(decode(changed)) == ErrorKind::corrupt);
          changed[at] ^= by;
        }
      }
      changed.push_back(std::byte{0});
      CHECK(kind_of(decode(changed)) == ErrorKind::corrupt);
    }
  }
}

TEST_CASE("An escaped key beyond the dtype, and a state below 256, are refused at every level") {
  for (const DType dtype : {DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2, DType::int8}) {
    CAPTURE(to_string(dtype));
    const BlockShape shape = BlockShape::opaque(dtype, 60'000);
    ByteVector payload = synthetic_kv(shape, 1, 2);
    for (std::size_t i = 0; i < 400; ++i) payload[i * 149] = static_cast<std::byte>(i * 91);
    const ByteVector other = synthetic_kv(shape, 1, 3);
    const ByteView view(other);
    const auto tables = StaticTables::fit(shape, std::span(&view, 1)).value();
    ByteVector frame(frame_bytes_max(shape));
    frame.resize(encode_frame(shape, tables.get(), payload, xxh3(payload), frame).value());
    const std::size_t stream = sizeof(FrameHeader) + sizeof(DirectoryEntry);
    StaticHeader header;
    std::memcpy(&header, frame.data() + stream, sizeof header);
    REQUIRE(header.escapes > 0);
    const std::size_t escape = stream + sizeof header + header.rans_bytes;
    ByteVector decoded(payload.size());
    for (const SimdLevel level : {SimdLevel::scalar, SimdLevel::avx2, SimdLevel::avx512}) {
      REQUIRE(decode_frame(shape, tables.get(), frame, decoded, level).ok());
      for (int bit = static_cast<int>(scalar_format(dtype).key_bits); bit < 8; ++bit) {
        ByteVector changed = frame;
        changed[escape] ^= static_cast<std::byte>(1U << bit);
        CHECK(kind_of(decode_frame(shape, tables.get(), changed, decoded, level)) ==
              ErrorKind::corrupt);
      }
      ByteVector changed = frame;
      changed[stream + offsetof(StaticHeader, state_high) + 5] = std::byte{0};
      CHECK(kind_of(decode_frame(shape, tables.get(), changed, decoded, level)) ==
            ErrorKind::corrupt);
    }
  }
}

TEST_CASE("A header that is summed but out of bounds is corrupt") {
  const Example example;
  const auto decode_with = [&](auto change) {
    return kind_of(example.decode(with_header(example.frame, change)));
  };
  CHECK(decode_with([](FrameHeader& h) { h.codec = 4; }) == ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.raw_bytes = block_bytes_max + 1; }) ==
        ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.raw_bytes -= 2; }) == ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.frame_bytes = ~std::uint64_t{0}; }) ==
        ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.substreams = ~std::uint32_t{0}; }) ==
        ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.substreams = 3; }) == ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.reserved_0 = 1; }) == ErrorKind::corrupt);
  CHECK(decode_with([](FrameHeader& h) { h.codec = 0; }) == ErrorKind::corrupt);
}

TEST_CASE("Versions and codecs of another time are unsupported") {
  const Example example;
  const ByteVector version_2 =
      with_header(example.frame, [](FrameHeader& header) { header.version = 2; });
  CHECK(kind_of(example.decode(version_2)) == ErrorKind::unsupported);
  const ByteVector predictor =
      with_header(example.frame, [](FrameHeader& header) { header.codec = 3; });
  CHECK(kind_of(example.decode(predictor)) == ErrorKind::unsupported);
}

TEST_CASE("A static frame is refused without its own tables") {
  const Example example;
  ByteVector decoded(example.payload.size());
  CHECK(kind_of(decode_frame(example.shape, nullptr, example.frame, decoded)) ==
        ErrorKind::invalid_argument);
  const auto others = fit_on(example.shape, synthetic_kv(example.shape, 9, 9));
  CHECK(kind_of(decode_frame(example.shape, others.get(), example.frame, decoded)) ==
        ErrorKind::invalid_argument);
}

TEST_CASE("Arguments that contradict the shape are invalid") {
  const Example example;
  ByteVector out(frame_bytes_max(example.shape));
  const ByteView payload(example.payload);
  const auto encoded = [&](const BlockShape& shape, ByteView bytes, MutableBytes to) {
    const auto result = encode_frame(shape, example.tables.get(), bytes, 0, to);
    return !result.ok() && result.error().kind() == ErrorKind::invalid_argument;
  };
  CHECK(encoded(example.shape, payload.first(100), out));
  CHECK(encoded(example.shape, payload, MutableBytes(out).first(100)));
  BlockShape other = example.shape;
  std::swap(other.layers, other.kv_heads);
  other.layers = 4, other.kv_heads = 1;
  CHECK(encoded(other, payload, out));
  BlockShape ragged = block_shape(DType::bf16, 2, 2, 16, 64, "CSLPHT");
  ragged.head_dim_k = 24, ragged.head_dim_v = 8;
  CHECK(encoded(ragged, payload, out));
  CHECK(kind_of(example.decode(ByteView())) == ErrorKind::corrupt);
  ByteVector small(10);
  CHECK(kind_of(decode_frame(example.shape, example.tables.get(), example.frame, small)) ==
        ErrorKind::invalid_argument);
  CHECK(kind_of(decode_substream(example.shape, example.tables.get(), example.frame, 4, out)) ==
        ErrorKind::invalid_argument);
}
