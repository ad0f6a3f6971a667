#include "storage/record_read.h"

namespace kvstrata::storage {

RecordRead::RecordRead(RecordKind kind, const BlockKey& key, const IndexEntry& entry)
    : kind_(kind), key_(key), entry_(entry), memory_(plan()) {}

Status RecordRead::plan() {
  if (!entry_.more.empty()) return plan_chain();
  KV_ASSIGN(buffer_, AlignedBuffer::take(entry_.where.bytes));
  transfers_.push_back(
      {entry_.where.segment, entry_.where.offset, buffer_.data(), entry_.where.bytes});
  return {};
}

// A further extent is a head page and a part of the frame; the parts are read one behind the other.
Status RecordRead::plan_chain() {
  std::uint64_t bytes = entry_.where.bytes;
  for (const RecordLocation& extent : entry_.more) bytes += extent.bytes - record_alignment;
  KV_ASSIGN(buffer_, AlignedBuffer::take(bytes));
  KV_ASSIGN(further_heads_, AlignedBuffer::take(entry_.more.size() * record_alignment));
  transfers_.push_back(
      {entry_.where.segment, entry_.where.offset, buffer_.data(), entry_.where.bytes});
  std::byte* part = buffer_.data() + entry_.where.bytes;
  std::byte* head = further_heads_.data();
  for (const RecordLocation& extent : entry_.more) {
    const std::uint64_t part_bytes = extent.bytes - record_alignment;
    transfers_.push_back({extent.segment, extent.offset, head, record_alignment});
    if (part_bytes > 0) {
      transfers_.push_back({extent.segment, extent.offset + record_alignment, part, part_bytes});
    }
    head += record_alignment;
    part += part_bytes;
  }
  return {};
}

Status RecordRead::check_head(ByteView head, std::size_t extent, std::uint64_t frame_start,
                              bool check_frame, RecordHeader& header) const {
  KV_ASSIGN(const RecordHead parsed, parse_record_head(head));
  header = parsed.header;
  const RecordLocation& where = extent == 0 ? entry_.where : entry_.more[extent - 1];
  const bool same_place = header.segment == where.segment.value &&
                          header.generation == where.generation && header.offset == where.offset &&
                          header.record_bytes == where.bytes;
  const bool same_block = header.kind == kind_ && header.ns == key_.ns.value &&
                          header.digest == key_.digest && header.group == key_.group;
  const bool same_frame =
      header.frame_total_bytes == entry_.frame_bytes && header.extent_index == extent &&
      header.extent_count == entry_.more.size() + 1 && header.payload_xxh3 == entry_.payload_xxh3;
  if (!same_place || !same_block || !same_frame) {
    return Error(ErrorKind::corrupt, "record: another one lies there");
  }
  if (frame_start + header.frame_bytes > buffer_.size()) {
    return Error(ErrorKind::corrupt, "record: its extents don't add up");
  }
  if (check_frame &&
      checksum({buffer_.data() + frame_start, header.frame_bytes}) != header.frame_xxh3) {
    return Error(ErrorKind::corrupt, "record: frame checksum differs");
  }
  return {};
}

Result<ReadRecord> RecordRead::finish(bool check_frame) {
  KV_TRY(memory_);
  RecordHeader first;
  // The frame's place is checked before its checksum is trusted, so parse the first head twice.
  KV_ASSIGN(const RecordHead parsed, parse_record_head({buffer_.data(), entry_.where.bytes}));
  const std::uint64_t frame_start = parsed.header.frame_offset;
  KV_TRY(check_head({buffer_.data(), entry_.where.bytes}, 0, frame_start, check_frame, first));
  std::uint64_t frame_bytes = first.frame_bytes;
  for (std::size_t i = 0; i < entry_.more.size(); ++i) {
    RecordHeader header;
    const ByteView head{further_heads_.data() + i * record_alignment, record_alignment};
    KV_TRY(check_head(head, i + 1, frame_start + frame_bytes, check_frame, header));
    frame_bytes += header.frame_bytes;
  }
  if (frame_bytes != entry_.frame_bytes) {
    return Error(ErrorKind::corrupt, "record: its extents don't add up");
  }
  ReadRecord record;
  record.frame = {buffer_.data() + frame_start, frame_bytes};
  record.identity = {buffer_.data() + sizeof(RecordHeader), first.identity_bytes};
  record.buffer = std::move(buffer_);
  return record;
}

}  // namespace kvstrata::storage
