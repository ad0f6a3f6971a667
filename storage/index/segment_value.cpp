#include "storage/index/segment_value.h"

#include "storage/index/byte_cursor.h"

namespace kvstrata::storage {

namespace {
constexpr std::uint8_t value_version = 1;
}  // namespace

std::string segment_value(const SegmentValue& value) {
  std::string out;
  append_number(out, value_version);
  append_number(out, static_cast<std::uint8_t>(value.state));
  append_number(out, value.generation);
  append_number(out, value.bytes);
  append_number(out, value.tail);
  append_number(out, value.live_bytes);
  append_number(out, value.live_blocks);
  append_number(out, value.order);
  append_number(out, value.sequence_end);
  return out;
}

Result<SegmentValue> parse_segment_value(std::string_view text) {
  ByteCursor cursor(text);
  const bool known = cursor.take<std::uint8_t>() == value_version;
  SegmentValue value;
  value.state = static_cast<SegmentState>(cursor.take<std::uint8_t>());
  value.generation = cursor.take<std::uint32_t>();
  value.bytes = cursor.take<std::uint64_t>();
  value.tail = cursor.take<std::uint64_t>();
  value.live_bytes = cursor.take<std::uint64_t>();
  value.live_blocks = cursor.take<std::uint64_t>();
  value.order = cursor.take<std::uint64_t>();
  value.sequence_end = cursor.take<std::uint64_t>();
  if (!known || !cursor.ok_at_end() || value.state < SegmentState::free ||
      value.state > SegmentState::lost || value.tail > value.bytes ||
      value.live_bytes > value.bytes) {
    return Error(ErrorKind::corrupt, "index: a value of segments breaks its grammar");
  }
  return value;
}

}  // namespace kvstrata::storage
