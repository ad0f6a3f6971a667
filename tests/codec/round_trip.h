// round_trip(): encode, inspect, decode, compare; the check most codec tests are made of.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "kvstrata/checksum.h"

namespace kvstrata::test {

inline constexpr codec::SimdLevel all_levels[] = {codec::SimdLevel::scalar, codec::SimdLevel::avx2,
                                                  codec::SimdLevel::avx512};

inline std::uint64_t hash_of(ByteView bytes) {
  return xxh3(bytes);
}

inline std::shared_ptr<const codec::StaticTables> fit_on(const codec::BlockShape& shape,
                                                         const ByteVector& payload) {
  const ByteView view(payload);
  auto tables = codec::StaticTables::fit(shape, std::span(&view, 1));
  REQUIRE_MESSAGE(tables.ok(), (tables.ok() ? "" : tables.error().message()));
  return *tables;
}

/// The frame, without what frame_bytes_max() left unused.
inline ByteVector encode(const codec::BlockShape& shape, const codec::CodecParameters* parameters,
                         ByteView payload, codec::SimdLevel level = codec::SimdLevel::scalar,
                         std::uint32_t first_position = 0) {
  ByteVector frame(codec::frame_bytes_max(shape));
  const auto bytes = codec::encode_frame(shape, parameters, payload, hash_of(payload), frame, level,
                                         first_position);
  REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? "" : bytes.error().message()));
  REQUIRE(*bytes <= frame.size());
  frame.resize(*bytes);
  return frame;
}

/// Encodes at every level, checks that all give one frame and that each level decodes it to
/// `payload`; returns the frame.
inline ByteVector round_trip(const codec::BlockShape& shape,
                             const codec::CodecParameters* parameters, const ByteVector& payload,
                             std::uint32_t first_position = 0) {
  const ByteVector frame =
      encode(shape, parameters, payload, codec::SimdLevel::scalar, first_position);
  const auto info = codec::inspect_frame(frame);
  REQUIRE(info.ok());
  CHECK(info->frame_bytes == frame.size());
  CHECK(info->raw_bytes == payload.size());
  CHECK(info->payload_xxh3 == hash_of(payload));
  for (const codec::SimdLevel level : all_levels) {
    CHECK((encode(shape, parameters, payload, level, first_position) == frame));
    ByteVector decoded(payload.size(), std::byte{0xee});
    const Status status = codec::decode_frame(shape, parameters, frame, decoded, level);
    CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
    CHECK((decoded == payload));
  }
  return frame;
}

}  // namespace kvstrata::test
