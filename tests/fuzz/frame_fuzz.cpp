// Frames and tables from anybody: every input is an error or decodes, the same
// at every level of machine code; and any payload comes back from a frame
// bit-exact.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "codec/codec.h"
#include "codec/frame_format.h"
#include "kvstrata/check.h"

using namespace kvstrata;
using namespace kvstrata::codec;

namespace {

constexpr SimdLevel all_levels[] = {SimdLevel::scalar, SimdLevel::avx2, SimdLevel::avx512};

/// The shape that the first bytes of the input ask for: small, of any layout
/// and dtype.
BlockShape shape_of(const std::uint8_t* choice) {
  static const std::pair<const char*, const char*> axes[] = {
      {"LSPHTC", "LSPHTC"}, {"LPHSCT", "LPHSTC"}, {"LSPTHC", "LSPTHC"}, {"CTHPLS", "CTHPLS"}};
  const auto dtype = static_cast<DType>(1 + choice[0] % 6);
  if (choice[1] % 4 == 0) return BlockShape::opaque(dtype, choice[2] * 13U);
  BlockShape shape;
  shape.dtype = dtype;
  shape.layers = 1 + choice[1] % 3;
  shape.kv_heads = 1 + choice[2] % 2;
  shape.head_dim_k = shape.head_dim_v = choice[3] < 64 ? 1 + choice[3] % 8 : 8 + choice[3] % 16;
  shape.layout.page_tokens = choice[4] < 64 ? 1 + choice[4] % 16 : 16 * (1 + choice[4] % 2);
  shape.tokens = shape.layout.page_tokens * (1 + choice[5] % 2);
  shape.layout.k_axes = axes[choice[6] % 4].first;
  shape.layout.v_axes = axes[choice[6] % 4].second;
  return shape;
}

/// The payload that repeats the input, so that short inputs make long
/// structured ones. Unless `wild`, most of its scalars have exponents that are
/// near each other: such a payload gains.
ByteVector payload_of(const BlockShape& shape, ByteView input, bool wild) {
  ByteVector payload(shape.raw_bytes());
  const std::size_t width = bytes_per_scalar(shape.dtype);
  for (std::size_t i = 0; i < payload.size() && !input.empty(); ++i) {
    payload[i] = input[i % input.size()];
    const bool top = i % width == width - 1;
    if (top && !wild && i % 61 != 0) payload[i] = (payload[i] & std::byte{0x83}) | std::byte{0x3c};
  }
  return payload;
}

void check_parse(ByteView input) {
  const auto tables = StaticTables::parse(input);
  if (!tables) return;
  const ByteVector again = (*tables)->serialize();
  KV_CHECK(std::ranges::equal(again, input), "serialising changed the tables");
}

/// Any bytes as a frame; all levels must agree on them.
void check_decode(const BlockShape& shape, const StaticTables* tables, ByteView frame) {
  ByteVector first(shape.raw_bytes());
  const Status expected = decode_frame(shape, tables, frame, first, SimdLevel::scalar);
  for (const SimdLevel level : all_levels) {
    ByteVector decoded(shape.raw_bytes());
    const Status status = decode_frame(shape, tables, frame, decoded, level);
    KV_CHECK(status.ok() == expected.ok(), "levels disagree on a frame");
    if (status) KV_CHECK(decoded == first, "levels decode to different bytes");
    for (std::uint32_t i = 0; i < shape.substreams(); ++i) {
      const Status alone = decode_substream(shape, tables, frame, i, decoded, level);
      KV_CHECK(alone.ok() || !status.ok(), "a good frame with a bad sub-stream");
    }
  }
}

ByteVector encoded(const BlockShape& shape, const StaticTables* tables, const ByteVector& payload,
                   SimdLevel level) {
  ByteVector frame(frame_bytes_max(shape));
  const auto bytes = encode_frame(shape, tables, payload, 0, frame, level);
  KV_CHECK(bytes.ok(), "a good payload was refused");
  frame.resize(*bytes);
  return frame;
}

/// The input as damage to the sub-streams of a good frame: header and directory
/// stay good, so the coder itself is reached, before the sum of what it
/// decodes.
void check_damaged(const BlockShape& shape, const StaticTables* tables, const ByteVector& payload,
                   ByteView damage) {
  ByteVector frame = encoded(shape, tables, payload, SimdLevel::avx2);
  const std::size_t data_at = sizeof(FrameHeader) + shape.substreams() * sizeof(DirectoryEntry);
  if (frame.size() <= data_at) return;
  for (std::size_t i = 0; i + 2 < damage.size(); i += 3) {
    const std::size_t at = load_le<std::uint16_t>(damage.data() + i);
    frame[data_at + at % (frame.size() - data_at)] ^= damage[i + 2];
  }
  check_decode(shape, tables, frame);
}

void check_round_trip(const BlockShape& shape, const StaticTables* tables,
                      const ByteVector& payload) {
  const ByteVector frame = encoded(shape, tables, payload, SimdLevel::scalar);
  for (const SimdLevel level : all_levels) {
    if (level != SimdLevel::scalar) {
      KV_CHECK(encoded(shape, tables, payload, level) == frame, "levels encode to different bytes");
    }
    ByteVector decoded(payload.size());
    KV_CHECK(decode_frame(shape, tables, frame, decoded, level).ok(), "a good frame was refused");
    KV_CHECK(decoded == payload, "a frame decoded to other bytes");
  }
}

/// Tables fitted on `payload`. It need not be what is coded with them then.
std::shared_ptr<const StaticTables> tables_for(const BlockShape& shape, const ByteVector& payload) {
  const ByteView view(payload);
  auto tables = StaticTables::fit(shape, std::span(&view, 1));
  KV_CHECK(tables.ok(), "a good payload was refused");
  return *std::move(tables);
}

ByteVector changed(ByteVector payload, std::uint8_t by) {
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] ^= static_cast<std::byte>(by * i);
  return payload;
}

}  // namespace

/// An input is one case: eight bytes choose a shape and what is tried, the rest
/// is the frame, the tables, the payload or the damage.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choice_bytes = 8, damage_bytes = 30;
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  if (size < choice_bytes) return 0;
  const BlockShape shape = shape_of(data);
  const ByteView rest = input.subspan(choice_bytes);
  const ByteVector payload = payload_of(shape, rest, data[6] >= 192);
  const std::uint8_t what = data[7] % 16;
  if (what == 0) {
    check_parse(rest);
  } else if (what <= 2) {
    check_decode(shape, nullptr, rest);
  } else if (what <= 4 || payload.empty()) {
    check_round_trip(shape, nullptr, payload);
  } else if (what == 5) {
    check_decode(shape, tables_for(shape, payload).get(), rest);
  } else if (what <= 9) {
    check_damaged(shape, tables_for(shape, payload).get(), payload,
                  rest.first(std::min(rest.size(), damage_bytes)));
  } else if (what <= 12) {
    check_round_trip(shape, tables_for(shape, payload).get(), payload);
  } else {
    check_round_trip(shape, tables_for(shape, payload).get(), changed(payload, data[6]));
  }
  return 0;
}
