#include "storage/segment/record.h"

#include <algorithm>

#include "kvstrata/checksum.h"

namespace kvstrata::storage {

namespace {

// Packed frames start on a cache line, which is what vector loads want.
constexpr std::uint64_t packed_alignment = 64;

Error corrupt(std::string_view reason) {
  return {ErrorKind::corrupt, "record: " + std::string(reason)};
}

// Two chained sums in place of one over a gap: the checksum itself lies between the two parts.
std::uint64_t head_checksum(const RecordHeader& header, ByteView identity) {
  return xxh3(identity, xxh3_of_head(header, offsetof(RecordHeader, header_xxh3)));
}

// The reason why a field contradicts the grammar, or an empty view.
std::string_view broken_field(const RecordHeader& h) {
  if (h.kind < RecordKind::block || h.kind > RecordKind::name_space) return "unknown kind";
  if ((h.flags & ~record_flags_known) != 0 || h.reserved != 0) return "unknown flag";
  if (h.extent_count == 0 || h.extent_count > extents_max || h.extent_index >= h.extent_count) {
    return "extent out of range";
  }
  if (h.frame_bytes > frame_part_bytes_max) return "frame out of range";
  if (h.frame_bytes > h.frame_total_bytes) return "extent longer than its frame";
  if (h.extent_count == 1 && h.frame_bytes != h.frame_total_bytes) return "frame is cut";
  if (h.offset % record_alignment != 0) return "unaligned offset";
  const RecordShape shape = record_shape(h.identity_bytes, h.frame_bytes, h.extent_index);
  if (h.frame_offset != shape.frame_offset || h.record_bytes != shape.record_bytes) {
    return "lengths contradict each other";
  }
  return {};
}

}  // namespace

RecordShape record_shape(std::uint64_t identity_bytes, std::uint64_t frame_bytes,
                         std::uint16_t extent_index) {
  const std::uint64_t head = sizeof(RecordHeader) + identity_bytes;
  const bool packed = extent_index == 0 && frame_bytes <= packed_frame_bytes_max;
  const std::uint64_t alignment = packed ? packed_alignment : record_alignment;
  const std::uint64_t frame_offset = round_up(head, alignment);
  return {frame_offset, round_up(frame_offset + frame_bytes, record_alignment)};
}

std::uint64_t ExtentPlan::frame_start_of(std::uint16_t extent) const {
  return extent == 0 ? 0 : first_frame_bytes + (extent - std::uint64_t{1}) * other_frame_bytes;
}

std::uint64_t ExtentPlan::frame_bytes_of(std::uint16_t extent, std::uint64_t total) const {
  const std::uint64_t start = frame_start_of(extent);
  return std::min(extent == 0 ? first_frame_bytes : other_frame_bytes, total - start);
}

Result<ExtentPlan> plan_extents(std::uint64_t identity_bytes, std::uint64_t frame_bytes,
                                std::uint64_t record_bytes_max) {
  KV_CHECK(record_bytes_max % record_alignment == 0, "extents are whole pages");
  if (identity_bytes > identity_bytes_max) {
    return Error(ErrorKind::too_large, "an identity has at most " +
                                           std::to_string(identity_bytes_max) + " bytes, not " +
                                           std::to_string(identity_bytes));
  }
  if (record_shape(identity_bytes, frame_bytes, 0).record_bytes <= record_bytes_max) {
    return ExtentPlan{frame_bytes, 0, 1};
  }
  const std::uint64_t head = round_up(sizeof(RecordHeader) + identity_bytes, record_alignment);
  // A first part that would be packed could not be continued at a page boundary.
  if (record_bytes_max < head + packed_frame_bytes_max + record_alignment) {
    return Error(ErrorKind::too_large,
                 "segments are too small to split a frame with so long an identity");
  }
  const ExtentPlan plan{record_bytes_max - head, record_bytes_max - record_alignment, 0};
  const std::uint64_t limit =
      plan.first_frame_bytes + (extents_max - std::uint64_t{1}) * plan.other_frame_bytes;
  if (frame_bytes > limit) {
    return Error(ErrorKind::too_large, "a frame has at most " + std::to_string(limit) +
                                           " bytes in this store, not " +
                                           std::to_string(frame_bytes));
  }
  const std::uint64_t rest = frame_bytes - plan.first_frame_bytes;
  const std::uint64_t others = (rest + plan.other_frame_bytes - 1) / plan.other_frame_bytes;
  return ExtentPlan{plan.first_frame_bytes, plan.other_frame_bytes,
                    static_cast<std::uint16_t>(1 + others)};
}

std::uint64_t checksum(ByteView bytes) {
  return xxh3(bytes);
}

void write_record_head(RecordHeader& header, ByteView identity, std::byte* at) {
  KV_CHECK(identity.size() <= identity_bytes_max, "identity is bounded before it gets here");
  const RecordShape shape = record_shape(identity.size(), header.frame_bytes, header.extent_index);
  header.magic = record_magic;
  header.version = record_version;
  header.reserved = 0;
  header.identity_bytes = static_cast<std::uint32_t>(identity.size());
  header.frame_offset = static_cast<std::uint32_t>(shape.frame_offset);
  header.record_bytes = shape.record_bytes;
  header.header_xxh3 = head_checksum(header, identity);
  std::memcpy(at, &header, sizeof header);
  if (!identity.empty()) std::memcpy(at + sizeof header, identity.data(), identity.size());
}

Result<RecordHead> parse_record_head(ByteView bytes) {
  if (bytes.size() < sizeof(RecordHeader)) return corrupt("shorter than a header");
  RecordHead head;
  std::memcpy(&head.header, bytes.data(), sizeof head.header);
  const RecordHeader& header = head.header;
  if (header.magic != record_magic) return corrupt("no magic");
  if (header.version != record_version) {
    return Error(ErrorKind::unsupported,
                 "record: version " + std::to_string(header.version) + " is not known");
  }
  if (header.identity_bytes > identity_bytes_max ||
      header.identity_bytes > bytes.size() - sizeof header) {
    return corrupt("identity out of range");
  }
  head.identity = bytes.subspan(sizeof header, header.identity_bytes);
  if (header.header_xxh3 != head_checksum(header, head.identity)) {
    return corrupt("header checksum differs");
  }
  if (const std::string_view reason = broken_field(header); !reason.empty()) return corrupt(reason);
  return head;
}

ByteView frame_of(const RecordHeader& header, ByteView record) {
  KV_CHECK(record.size() >= header.record_bytes, "the whole record was read");
  return record.subspan(header.frame_offset, header.frame_bytes);
}

}  // namespace kvstrata::storage
