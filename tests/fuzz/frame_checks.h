// What fuzz targets of codecs ask of frames: every level of machine code agrees on any bytes, and
// any payload comes back from a frame bit-exact.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/frame_format.h"
#include "kvstrata/check.h"

namespace kvstrata::test {

inline constexpr codec::SimdLevel fuzzed_levels[] = {
    codec::SimdLevel::scalar, codec::SimdLevel::avx2, codec::SimdLevel::avx512};

/// With what is coded; parameters may be null.
struct Coding {
  codec::BlockShape shape;
  std::shared_ptr<const codec::CodecParameters> parameters;
  std::uint32_t position = 0;

  ByteVector encode(const ByteVector& payload, codec::SimdLevel level) const {
    ByteVector frame(codec::frame_bytes_max(shape));
    const auto bytes =
        codec::encode_frame(shape, parameters.get(), payload, 0, frame, level, position);
    KV_CHECK(bytes.ok(), "a good payload was refused");
    frame.resize(*bytes);
    return frame;
  }
  Status decode(ByteView frame, ByteVector& payload, codec::SimdLevel level) const {
    return codec::decode_frame(shape, parameters.get(), frame, payload, level);
  }
};

enum class Substreams : std::uint8_t { together, alone_too };

/// Any bytes as a frame; all levels must agree on them.
inline void check_decode(const Coding& coding, ByteView frame,
                         Substreams substreams = Substreams::together) {
  ByteVector first(coding.shape.raw_bytes());
  const Status expected = coding.decode(frame, first, codec::SimdLevel::scalar);
  for (const codec::SimdLevel level : fuzzed_levels) {
    ByteVector decoded(coding.shape.raw_bytes());
    const Status status = coding.decode(frame, decoded, level);
    KV_CHECK(status.ok() == expected.ok(), "levels disagree on a frame");
    if (status) KV_CHECK(decoded == first, "levels decode to different bytes");
    if (substreams == Substreams::together) continue;
    for (std::uint32_t i = 0; i < coding.shape.substreams(); ++i) {
      const Status alone =
          codec::decode_substream(coding.shape, coding.parameters.get(), frame, i, decoded, level);
      KV_CHECK(alone.ok() || !status.ok(), "a good frame with a bad sub-stream");
    }
  }
}

/// A good frame with damage behind its header and directory: they stay good, so the coder itself is
/// reached, before the sum of what it decodes.
inline ByteVector damaged_frame(const Coding& coding, const ByteVector& payload, ByteView damage) {
  ByteVector frame = coding.encode(payload, codec::SimdLevel::avx2);
  const std::size_t data_at =
      sizeof(codec::FrameHeader) + coding.shape.substreams() * sizeof(codec::DirectoryEntry);
  for (std::size_t i = 0; frame.size() > data_at && i + 2 < damage.size(); i += 3) {
    const std::size_t at = load_le<std::uint16_t>(damage.data() + i);
    frame[data_at + at % (frame.size() - data_at)] ^= damage[i + 2];
  }
  return frame;
}

inline void check_round_trip(const Coding& coding, const ByteVector& payload) {
  const ByteVector frame = coding.encode(payload, codec::SimdLevel::scalar);
  for (const codec::SimdLevel level : fuzzed_levels) {
    if (level != codec::SimdLevel::scalar) {
      KV_CHECK(coding.encode(payload, level) == frame, "levels encode to different bytes");
    }
    ByteVector decoded(payload.size());
    KV_CHECK(coding.decode(frame, decoded, level).ok(), "a good frame was refused");
    KV_CHECK(decoded == payload, "a frame decoded to other bytes");
  }
}

}  // namespace kvstrata::test
