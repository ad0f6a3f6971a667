// A record is one self-describing append to a segment: header, identity, frame, padding. Grammar
// and a worked example: doc/segment-format.md. This file only lays out and checks bytes; it does no
// I/O.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kvstrata/bytes.h"
#include "kvstrata/keys.h"
#include "kvstrata/result.h"

namespace kvstrata::storage {

inline constexpr std::uint64_t record_alignment = 4096;
/// Token ids of 1024 tokens, an opaque key, or the canonical bytes of a namespace.
inline constexpr std::uint64_t identity_bytes_max = 64_KiB;
/// Frames up to this follow the identity in the same page; larger ones start on a page of their
/// own.
inline constexpr std::uint64_t packed_frame_bytes_max = 32_KiB;
inline constexpr std::uint64_t frame_part_bytes_max =
    1_GiB;                                        ///< in one record, far above any segment
inline constexpr std::uint16_t extents_max = 64;  ///< records one frame may be split into

enum class RecordKind : std::uint8_t {
  block = 1,       ///< frame: an encoded block; identity: token ids or the opaque key
  table = 2,       ///< frame: serialised codec tables; identity: empty
  name_space = 3,  ///< frame: empty; identity: namespace_bytes()
};

enum RecordFlag : std::uint16_t { record_has_parent = 1, record_pinned = 2 };
inline constexpr std::uint16_t record_flags_known = record_has_parent | record_pinned;

/// As on disk, little-endian. `header_xxh3` = XXH3-64(identity, seed = XXH3-64(bytes 0..191)).
struct RecordHeader {
  std::array<char, 8> magic;
  std::uint16_t version;
  RecordKind kind;
  std::uint8_t codec;
  std::uint16_t flags;
  std::uint16_t group;
  std::uint32_t ns;
  std::uint32_t table;
  std::uint32_t segment;
  std::uint32_t generation;
  std::uint64_t sequence;
  std::uint64_t offset;  ///< the record's own place in its segment; betrays misdirected writes
  Hash256 digest;
  Hash256 parent;
  std::uint64_t record_bytes;  ///< with padding
  std::uint32_t identity_bytes;
  std::uint32_t frame_offset;       ///< from the record's start
  std::uint64_t frame_bytes;        ///< the part of the frame in this record
  std::uint64_t frame_total_bytes;  ///< of all extents
  std::uint16_t extent_index;
  std::uint16_t extent_count;
  std::uint32_t reserved;
  std::uint64_t raw_bytes;
  std::uint64_t payload_xxh3;
  std::uint64_t frame_xxh3;  ///< of the part of the frame in this record
  std::uint64_t created_unix_ms;
  std::uint64_t expires_unix_ms;
  std::uint64_t header_xxh3;
};
static_assert(sizeof(RecordHeader) == 200 && alignof(RecordHeader) == 8);

inline constexpr std::array<char, 8> record_magic = {'K', 'V', 'S', 'T', 'R', 'R', 'E', 'C'};
inline constexpr std::uint16_t record_version = 1;

/// Where the frame lies in a record and how long the record is; both follow from two lengths.
struct RecordShape {
  std::uint64_t frame_offset = 0;
  std::uint64_t record_bytes = 0;
};
/// Further extents are never packed, so that their parts of the frame can be read side by side.
RecordShape record_shape(std::uint64_t identity_bytes, std::uint64_t frame_bytes,
                         std::uint16_t extent_index);

/// How a frame is split so that no record exceeds `record_bytes_max` (a multiple of 4096).
struct ExtentPlan {
  std::uint64_t first_frame_bytes = 0;  ///< in the first record, which also holds the identity
  std::uint64_t other_frame_bytes = 0;  ///< in each further record but the last, which has the rest
  std::uint16_t count = 1;

  std::uint64_t frame_bytes_of(std::uint16_t extent, std::uint64_t total) const;
  std::uint64_t frame_start_of(std::uint16_t extent) const;
};
/// `too_large`, naming the limit, if more than extents_max records were needed.
Result<ExtentPlan> plan_extents(std::uint64_t identity_bytes, std::uint64_t frame_bytes,
                                std::uint64_t record_bytes_max);

/// XXH3-64 of bytes, the checksum of all parts of a segment.
std::uint64_t checksum(ByteView bytes);

/// Fills magic, version, shape and header_xxh3, and writes header and identity to `at`, which has
/// room for sizeof(RecordHeader) + identity.size() bytes.
void write_record_head(RecordHeader& header, ByteView identity, std::byte* at);

/// A checked header and the identity behind it; the identity points into the parsed bytes.
struct RecordHead {
  RecordHeader header;
  ByteView identity;
};
/// Checks grammar and checksum of a record's head; `bytes` starts at the record and reaches at
/// least to the end of its identity. `corrupt` with the first reason found.
Result<RecordHead> parse_record_head(ByteView bytes);

/// The frame part of a whole record whose head was parsed.
ByteView frame_of(const RecordHeader& header, ByteView record);

}  // namespace kvstrata::storage
