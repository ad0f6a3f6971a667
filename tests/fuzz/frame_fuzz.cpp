// Frames and tables from anybody: every input is an error or decodes, the same at every level of
// machine code; and any payload comes back from a frame bit-exact.
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

/// The shape that the first bytes of the input ask for: small, of any layout and dtype.
BlockShape shape_of(const std::uint8_t* choice) {
  static const std::pair<const char*, const char*> axes[] = {
      {"LSPHTC", "LSPHTC"}, {"LPHSCT", "LPHSTC"}, {"LSPTHC", "LSPTHC"}, {"CTHPLS", "CTHPLS"}};
  const auto dtype = static_cast<DType>(1 + choice[0] % 6);
  if (choice[1] % 4 == 0) return BlockShape::opaque(dtype, choice[2] * 13U);
  BlockShape shape;
  shape.dtype = dtype;
  shape.layers = 1 + choice[1] % 3;
  shape.kv_heads = 1 + choice[2] % 2;
  shape.head_dim_k = shape.head_dim_v = 1 + choice[3] % 20;
  shape.layout.page_tokens = 1 + choice[4] % 16;  // long enough for whole vectors
  shape.tokens = shape.layout.page_tokens * (1 + choice[5] % 2);
  shape.layout.k_axes = axes[choice[6] % 4].first;
  shape.layout.v_axes = axes[choice[6] % 4].second;
  return shape;
}

/// The payload that repeats the input, so that short inputs make long structured ones.
ByteVector payload_of(const BlockShape& shape, ByteView input) {
  ByteVector payload(shape.raw_bytes());
  for (std::size_t i = 0; i < payload.size() && !input.empty(); ++i) {
    payload[i] = input[i % input.size()];
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

/// The input as damage to the sub-streams of a good frame: header and directory stay good, so the
/// coder itself is reached, before the sum of what it decodes.
void check_damaged(const BlockShape& shape, const StaticTables* tables, ByteVector frame,
                   ByteView damage) {
  const std::size_t data_at = sizeof(FrameHeader) + shape.substreams() * sizeof(DirectoryEntry);
  if (frame.size() <= data_at) return;
  for (std::size_t i = 0; i + 2 < damage.size(); i += 3) {
    const std::size_t at = load_le<std::uint16_t>(damage.data() + i);
    frame[data_at + at % (frame.size() - data_at)] ^= damage[i + 2];
  }
  check_decode(shape, tables, frame);
}

void check_round_trip(const BlockShape& shape, const StaticTables* tables,
                      const ByteVector& payload, ByteView damage) {
  const std::uint64_t hash = xxh3(payload);
  ByteVector frame(frame_bytes_max(shape));
  const auto bytes = encode_frame(shape, tables, payload, hash, frame, SimdLevel::scalar);
  KV_CHECK(bytes.ok(), "a good payload was refused");
  frame.resize(*bytes);
  for (const SimdLevel level : all_levels) {
    ByteVector again(frame_bytes_max(shape));
    const auto length = encode_frame(shape, tables, payload, hash, again, level);
    KV_CHECK(length.ok() && *length == frame.size(), "levels encode to different lengths");
    again.resize(*length);
    KV_CHECK(again == frame, "levels encode to different bytes");
    ByteVector decoded(payload.size());
    KV_CHECK(decode_frame(shape, tables, frame, decoded, level).ok(), "a good frame was refused");
    KV_CHECK(decoded == payload, "a frame decoded to other bytes");
  }
  check_damaged(shape, tables, frame, damage);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choice_bytes = 8;
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  check_parse(input);
  if (size < choice_bytes) return 0;
  const BlockShape shape = shape_of(data);
  const ByteView rest = input.subspan(choice_bytes);
  check_decode(shape, nullptr, rest);
  const ByteVector payload = payload_of(shape, rest);
  check_round_trip(shape, nullptr, payload, {});
  if (payload.empty()) return 0;
  const ByteView view(payload);
  const auto tables = StaticTables::fit(shape, std::span(&view, 1));
  KV_CHECK(tables.ok(), "a good payload was refused");
  check_round_trip(shape, tables->get(), payload,
                   rest.first(std::min<std::size_t>(rest.size(), 30)));
  if (data[7] % 2 == 0) return 0;
  ByteVector other = payload;  // coded with tables of something else
  for (std::size_t i = 0; i < other.size(); ++i) other[i] ^= static_cast<std::byte>(data[7] * i);
  check_round_trip(shape, tables->get(), other, {});
  return 0;
}
