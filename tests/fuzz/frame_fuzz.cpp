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

#include "tests/fuzz/frame_checks.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

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
  shape.head_dim_k = shape.head_dim_v = choice[3] < 64 ? 1 + choice[3] % 8 : 8 + choice[3] % 16;
  shape.layout.page_tokens = choice[4] < 64 ? 1 + choice[4] % 16 : 16 * (1 + choice[4] % 2);
  shape.tokens = shape.layout.page_tokens * (1 + choice[5] % 2);
  shape.layout.k_axes = axes[choice[6] % 4].first;
  shape.layout.v_axes = axes[choice[6] % 4].second;
  return shape;
}

/// The payload that repeats the input, so that short inputs make long structured ones. Unless
/// `wild`, most of its scalars have exponents that are near each other: such a payload gains.
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

/// An input is one case: eight bytes choose a shape and what is tried, the rest is the frame, the
/// tables, the payload or the damage.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choice_bytes = 8, damage_bytes = 30;
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  if (size < choice_bytes) return 0;
  const BlockShape shape = shape_of(data);
  const ByteView rest = input.subspan(choice_bytes);
  const ByteVector payload = payload_of(shape, rest, data[6] >= 192);
  const std::uint8_t what = data[7] % 16;
  const bool has_tables = what >= 5 && !payload.empty();
  const Coding coding{shape, has_tables ? tables_for(shape, payload) : nullptr};
  if (what == 0) {
    check_parse(rest);
  } else if (what <= 2 || (what == 5 && has_tables)) {
    check_decode(coding, rest, Substreams::alone_too);
  } else if (what <= 4 || !has_tables) {
    check_round_trip(coding, payload);
  } else if (what <= 9) {
    const ByteView damage = rest.first(std::min(rest.size(), damage_bytes));
    check_decode(coding, damaged_frame(coding, payload, damage), Substreams::alone_too);
  } else {
    check_round_trip(coding, what <= 12 ? payload : changed(payload, data[6]));
  }
  return 0;
}
