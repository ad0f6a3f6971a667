#include "storage/recovery/segment_scan.h"

#include <algorithm>
#include <cstring>

namespace kvstrata::storage {

namespace {

enum class Page : std::uint8_t { record, other, damaged, unreadable };

class Scan {
 public:
  Scan(const Superblock& superblock, std::uint64_t segment_bytes, const SegmentReader& read)
      : superblock_(superblock), segment_bytes_(segment_bytes), read_(read) {}

  /// What begins at `offset`; for a record, head() tells of it.
  Page look(std::uint64_t offset);
  const RecordHead& head() const { return head_; }

 private:
  bool is_of_this_content(std::uint64_t offset) const;

  const Superblock& superblock_;
  const std::uint64_t segment_bytes_;
  const SegmentReader& read_;
  ByteVector bytes_ = ByteVector(record_alignment);
  RecordHead head_;
};

Page Scan::look(std::uint64_t offset) {
  bytes_.resize(record_alignment);
  if (!read_(offset, bytes_)) return Page::unreadable;
  RecordHeader header;
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (header.magic != record_magic) return Page::other;
  // An identity may reach into the following pages.
  const std::uint64_t head_bytes =
      sizeof header + std::min<std::uint64_t>(header.identity_bytes, identity_bytes_max);
  if (head_bytes > bytes_.size()) {
    bytes_.resize(round_up(std::min(head_bytes, segment_bytes_ - offset), record_alignment));
    if (offset + bytes_.size() > segment_bytes_) return Page::damaged;
    if (!read_(offset, bytes_)) return Page::unreadable;
  }
  auto parsed = parse_record_head(bytes_);
  if (!parsed) return Page::damaged;
  head_ = *parsed;
  return is_of_this_content(offset) ? Page::record : Page::other;
}

// Whole records of earlier generations may lie behind the tail.
bool Scan::is_of_this_content(std::uint64_t offset) const {
  const RecordHeader& header = head_.header;
  return header.segment == superblock_.segment && header.generation == superblock_.generation &&
         header.offset == offset && header.record_bytes <= segment_bytes_ - offset;
}

}  // namespace

ScanCounts scan_segment(const Superblock& superblock, std::uint64_t segment_bytes,
                        const SegmentReader& read, const RecordVisitor& visit) {
  ScanCounts counts;
  Scan scan(superblock, segment_bytes, read);
  std::uint64_t offset = superblock_bytes;
  while (offset + record_alignment <= segment_bytes) {
    switch (scan.look(offset)) {
      case Page::record:
        ++counts.records;
        visit(scan.head());
        offset += scan.head().header.record_bytes;
        continue;
      case Page::damaged: ++counts.damaged; break;
      case Page::unreadable: ++counts.unreadable; break;
      case Page::other: break;
    }
    offset += record_alignment;
  }
  return counts;
}

}  // namespace kvstrata::storage
