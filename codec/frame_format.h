// The frame's structs as they lie on disk and on the wire, version 1. See doc/frame-format.md.
// Plain data, read and written by memcpy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvstrata/checksum.h"

namespace kvstrata::codec {

inline constexpr std::uint32_t frame_magic = 0x4653564b;  // "KVSF"
inline constexpr std::uint8_t frame_version = 1;
inline constexpr std::uint32_t substreams_max = 2048;

/// linear: all of a layer, K and V in one chain, which is the first of the layer's sub-streams; a
/// second is empty.
enum class SubstreamKind : std::uint8_t { raw = 0, static_coded = 1, linear = 2 };

struct FrameHeader {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t codec;
  std::uint16_t reserved_0;
  std::uint64_t raw_bytes;
  std::uint64_t frame_bytes;
  std::uint32_t substreams;
  std::uint32_t first_position;  ///< linear: of the payload's first token; else 0
  std::uint64_t parameters_hash;
  std::uint64_t payload_xxh3;
  std::uint64_t directory_xxh3;
  std::uint64_t header_xxh3;  ///< of all bytes before it
};
static_assert(sizeof(FrameHeader) == 64 && offsetof(FrameHeader, header_xxh3) == 56);

struct DirectoryEntry {
  std::uint32_t encoded_bytes;
  SubstreamKind kind;
  std::uint8_t table;  ///< opaque shapes, static: the piece's table
  std::uint16_t reserved;
  std::uint64_t decoded_xxh3;
};
static_assert(sizeof(DirectoryEntry) == 16);

inline bool all_raw(std::span<const DirectoryEntry> directory) {
  return std::ranges::all_of(
      directory, [](const DirectoryEntry& entry) { return entry.kind == SubstreamKind::raw; });
}

inline std::uint64_t header_checksum(const FrameHeader& header) {
  return xxh3_of_head(header, offsetof(FrameHeader, header_xxh3));
}

}  // namespace kvstrata::codec
