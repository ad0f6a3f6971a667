// A segment file is a preallocated file of records behind a 4 KiB superblock; its name is its id.
// Format: doc/segment-format.md. This file only lays out and checks bytes and names.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstrata/bytes.h"
#include "kvstrata/id.h"
#include "kvstrata/result.h"

namespace kvstrata::storage {

/// Names one store for ever; random.
using StoreId = std::array<std::byte, 16>;

inline constexpr std::uint64_t superblock_bytes = 4096;
inline constexpr std::uint64_t segment_bytes_min = 64_KiB;
inline constexpr std::uint64_t segment_bytes_max = 256_MiB;

/// As on disk at offset 0, little-endian; the rest of the 4 KiB is zero.
struct Superblock {
  std::array<char, 8> magic;
  std::uint16_t version;
  std::uint16_t reserved;
  std::uint32_t segment;
  std::uint32_t generation;
  std::uint32_t record_alignment;
  std::uint64_t segment_bytes;
  StoreId store;
  std::uint64_t opened_unix_ms;  ///< when this generation began
  std::uint64_t xxh3;            ///< of all bytes before it
};
static_assert(sizeof(Superblock) == 64);

/// Writes a whole superblock page to `page`.
void write_superblock(SegmentId segment, std::uint32_t generation, std::uint64_t segment_bytes,
                      const StoreId& store, std::uint64_t opened_unix_ms, MutableBytes page);
/// `corrupt` or `unsupported` with the first reason found.
Result<Superblock> parse_superblock(ByteView page);

/// "00000042.seg"
std::string segment_file_name(SegmentId segment);
/// The id in a segment file's name; nothing for every other name.
std::optional<SegmentId> parse_segment_file_name(std::string_view name);
/// What a segment file is renamed to when the index that knew it is lost: "00000042.seg.old".
inline constexpr std::string_view old_segment_suffix = ".old";

}  // namespace kvstrata::storage
