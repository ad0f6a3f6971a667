// Records and superblocks from a damaged disk: every input is an error or parses to something that
// serialises back to the same bytes; and no field that was checked points outside the record.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "kvstrata/check.h"
#include "storage/record_read.h"
#include "storage/segment/record.h"
#include "storage/segment/segment_file.h"

using namespace kvstrata;
using namespace kvstrata::storage;

namespace {

void check_head(ByteView input) {
  const Result<RecordHead> head = parse_record_head(input);
  if (!head) return;
  const RecordHeader& header = head->header;
  KV_CHECK(sizeof header + head->identity.size() <= input.size(), "identity outside of the input");
  KV_CHECK(header.frame_offset >= sizeof header + header.identity_bytes, "frame over the head");
  KV_CHECK(header.frame_offset + header.frame_bytes <= header.record_bytes, "frame sticks out");
  KV_CHECK(header.record_bytes % record_alignment == 0, "record is not whole pages");
  KV_CHECK(header.extent_index < header.extent_count, "extent out of its chain");
  RecordHeader again = header;
  ByteVector bytes(sizeof header + head->identity.size());
  write_record_head(again, head->identity, bytes.data());
  KV_CHECK(std::ranges::equal(bytes, input.first(bytes.size())), "writing changed the head");
}

// The input as fields of a header under a right checksum, so that the grammar is reached.
void check_summed_head(ByteView input) {
  if (input.size() < sizeof(RecordHeader)) return;
  RecordHeader header;
  std::memcpy(&header, input.data(), sizeof header);
  const ByteView rest = input.subspan(sizeof header);
  const ByteView identity = rest.first(std::min<std::size_t>(rest.size(), 300));
  header.kind = static_cast<RecordKind>(1 + static_cast<unsigned>(header.kind) % 3);
  header.flags &= record_flags_known;
  header.offset &= ~(record_alignment - 1);
  ByteVector bytes(sizeof header + identity.size());
  write_record_head(header, identity, bytes.data());
  check_head(bytes);
}

void check_superblock(ByteView input) {
  AlignedBuffer page(superblock_bytes);
  std::memset(page.data(), 0, page.size());
  std::ranges::copy(input.first(std::min<std::size_t>(input.size(), page.size())), page.data());
  const Result<Superblock> superblock = parse_superblock(page.bytes());
  if (!superblock) return;
  AlignedBuffer again(superblock_bytes);
  write_superblock(SegmentId{superblock->segment}, superblock->generation,
                   superblock->segment_bytes, superblock->store, superblock->opened_unix_ms,
                   again.bytes());
  KV_CHECK(std::memcmp(&*superblock, again.data(), sizeof *superblock) == 0,
           "writing changed the superblock");
}

void check_name(ByteView input) {
  const std::string_view name = as_text(input);
  const auto segment = parse_segment_file_name(name);
  if (segment) KV_CHECK(segment_file_name(*segment) == name, "a segment has two names");
}

// What a reader does with bytes the index pointed it at.
void check_read(ByteView input) {
  IndexEntry entry;
  entry.where.bytes = std::max<std::uint64_t>(round_up(input.size(), record_alignment), 4096);
  entry.more.resize(input.empty() ? 0 : std::to_integer<unsigned>(input[0]) % 3);
  for (RecordLocation& extent : entry.more) extent.bytes = 8192;
  BlockKey key;
  if (input.size() >= sizeof(RecordHeader)) {
    RecordHeader header;
    std::memcpy(&header, input.data(), sizeof header);
    key = {NamespaceId{header.ns}, header.digest, header.group};
    entry.where = {SegmentId{header.segment}, header.generation, header.offset, entry.where.bytes};
    entry.frame_bytes = header.frame_total_bytes;
    entry.payload_xxh3 = header.payload_xxh3;
  }
  RecordRead read(RecordKind::block, key, entry);
  for (const RecordRead::Transfer& transfer : read.transfers()) {
    std::memset(transfer.buffer, 0, transfer.bytes);
    std::ranges::copy(input.first(std::min<std::size_t>(input.size(), transfer.bytes)),
                      transfer.buffer);
  }
  const Result<ReadRecord> record = read.finish(true);
  if (!record) return;
  const std::byte* end = record->buffer.data() + record->buffer.size();
  KV_CHECK(record->frame.data() + record->frame.size() <= end, "frame outside of the buffer");
  KV_CHECK(record->identity.data() + record->identity.size() <= end, "identity outside");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView input{reinterpret_cast<const std::byte*>(data), size};
  check_head(input);
  check_summed_head(input);
  check_superblock(input);
  check_name(input);
  if (size <= 1_MiB) check_read(input);
  return 0;
}
