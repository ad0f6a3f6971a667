#include "storage/segment/segment_file.h"

#include <charconv>
#include <cstdio>

#include "kvstrata/checksum.h"
#include "storage/segment/record.h"

namespace kvstrata::storage {

namespace {

constexpr std::array<char, 8> superblock_magic = {'K', 'V', 'S', 'T', 'R', 'S', 'E', 'G'};
constexpr std::uint16_t superblock_version = 1;
constexpr std::string_view segment_suffix = ".seg";
constexpr std::size_t name_digits = 8;

std::uint64_t superblock_checksum(const Superblock& superblock) {
  return xxh3_of_head(superblock, offsetof(Superblock, xxh3));
}

}  // namespace

void write_superblock(SegmentId segment, std::uint32_t generation, std::uint64_t segment_bytes,
                      const StoreId& store, std::uint64_t opened_unix_ms, MutableBytes page) {
  KV_CHECK(page.size() == superblock_bytes, "a superblock is one page");
  Superblock superblock{superblock_magic, superblock_version, 0,     segment.value,  generation,
                        record_alignment, segment_bytes,      store, opened_unix_ms, 0};
  superblock.xxh3 = superblock_checksum(superblock);
  std::memset(page.data(), 0, page.size());
  std::memcpy(page.data(), &superblock, sizeof superblock);
}

Result<Superblock> parse_superblock(ByteView page) {
  const auto corrupt = [](std::string_view reason) {
    return Error(ErrorKind::corrupt, "superblock: " + std::string(reason));
  };
  if (page.size() < superblock_bytes) return corrupt("shorter than a page");
  Superblock superblock;
  std::memcpy(&superblock, page.data(), sizeof superblock);
  if (superblock.magic != superblock_magic) return corrupt("no magic");
  if (superblock.version != superblock_version) {
    return Error(ErrorKind::unsupported,
                 "superblock: version " + std::to_string(superblock.version) + " is not known");
  }
  if (superblock.xxh3 != superblock_checksum(superblock)) return corrupt("checksum differs");
  if (superblock.reserved != 0 || superblock.record_alignment != record_alignment ||
      superblock.segment_bytes % record_alignment != 0 ||
      superblock.segment_bytes < segment_bytes_min ||
      superblock.segment_bytes > segment_bytes_max) {
    return corrupt("sizes out of range");
  }
  return superblock;
}

std::string segment_file_name(SegmentId segment) {
  std::string digits = std::to_string(segment.value);
  if (digits.size() < name_digits) digits.insert(0, name_digits - digits.size(), '0');
  return digits + std::string(segment_suffix);
}

std::optional<SegmentId> parse_segment_file_name(std::string_view name) {
  if (!name.ends_with(segment_suffix)) return std::nullopt;
  name.remove_suffix(segment_suffix.size());
  SegmentId segment;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), segment.value);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  // Only the one spelling that segment_file_name() gives, so that a foreign name is left alone.
  if (segment_file_name(segment) != std::string(name) + std::string(segment_suffix)) {
    return std::nullopt;
  }
  return segment;
}

}  // namespace kvstrata::storage
