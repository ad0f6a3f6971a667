// A segment of unknown content, as recovery finds it: the scan ends, visits only what lies inside
// the segment and in order, and what it found adds up.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kvstrata/check.h"
#include "storage/recovery/found_blocks.h"
#include "storage/recovery/segment_scan.h"

using namespace kvstrata;
using namespace kvstrata::storage;

namespace {

constexpr std::uint32_t segment = 3, generation = 2;

/// Pages of the input; those that begin with a small byte become heads under right checksums, so
/// that the walk from record to record is reached.
ByteVector segment_of(ByteView input) {
  ByteVector bytes(superblock_bytes + round_up(input.size(), record_alignment));
  std::ranges::copy(input, bytes.begin() + superblock_bytes);
  for (std::size_t at = superblock_bytes; at < bytes.size(); at += record_alignment) {
    if (std::to_integer<unsigned>(bytes[at]) >= 128) continue;
    RecordHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    header.kind = static_cast<RecordKind>(1 + static_cast<unsigned>(header.kind) % 3);
    header.flags &= record_flags_known;
    header.segment = segment;
    header.generation = generation;
    header.offset = at;
    const std::size_t identity_bytes =
        std::min<std::size_t>(header.identity_bytes % 5000, bytes.size() - at - sizeof header);
    const ByteVector identity(
        bytes.begin() + static_cast<std::ptrdiff_t>(at + sizeof header),
        bytes.begin() + static_cast<std::ptrdiff_t>(at + sizeof header + identity_bytes));
    write_record_head(header, identity, bytes.data() + at);
  }
  return bytes;
}

void check_puts(FoundBlocks& found) {
  std::uint64_t incomplete = 0;
  std::uint64_t last = 0;
  for (const std::vector<FoundRecord>& put : found.newest_puts(incomplete)) {
    KV_CHECK(put.front().sequence >= last, "puts are not in order");
    last = put.front().sequence;
    KV_CHECK(put.size() == put.front().extent_count, "a put is not whole");
    for (std::size_t i = 0; i < put.size(); ++i) {
      KV_CHECK(put[i].extent_index == i && put[i].key == put.front().key, "a foreign extent");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 1_MiB) return 0;
  const ByteVector bytes = segment_of({reinterpret_cast<const std::byte*>(data), size});
  Superblock superblock{};
  superblock.segment = segment;
  superblock.generation = generation;
  const auto read = [&](std::uint64_t offset, MutableBytes out) {
    KV_CHECK(offset <= bytes.size() && out.size() <= bytes.size() - offset, "read outside");
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return offset % (5 * record_alignment) != 0;  // some pages can't be read
  };
  FoundBlocks found;
  std::uint64_t end = superblock_bytes;
  std::uint64_t visited = 0;
  const ScanCounts counts =
      scan_segment(superblock, bytes.size(), read, [&](const RecordHead& head) {
        KV_CHECK(head.header.offset >= end, "records overlap");
        end = head.header.offset + head.header.record_bytes;
        KV_CHECK(end <= bytes.size(), "a record reaches beyond the segment");
        ++visited;
        found.add(head);
      });
  KV_CHECK(counts.records == visited, "records are miscounted");
  check_puts(found);
  return 0;
}
