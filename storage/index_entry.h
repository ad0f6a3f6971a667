// An IndexEntry is what the index knows of one block: where its record lies and what is needed to
// choose and check it before any payload is read. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvstrata/id.h"
#include "kvstrata/keys.h"

namespace kvstrata::storage {

/// Where a record lies. `generation` is that of the segment's content.
struct RecordLocation {
  SegmentId segment;
  std::uint32_t generation = 0;
  std::uint64_t offset = 0;  ///< multiple of io_alignment
  std::uint64_t bytes = 0;   ///< whole record with padding, multiple of io_alignment

  friend bool operator==(const RecordLocation&, const RecordLocation&) = default;
};

/// What the index knows of a block.
struct IndexEntry {
  RecordLocation where;
  std::vector<RecordLocation> more;  ///< further extents of a frame too large for one record
  std::optional<Hash256>
      parent;                   ///< digest of the previous block of the prefix; none: first/opaque
  std::uint64_t raw_bytes = 0;  ///< decoded payload
  std::uint64_t frame_bytes = 0;   ///< of all extents
  std::uint64_t payload_xxh3 = 0;  ///< of the decoded payload
  std::uint8_t codec = 0;          ///< codec::CodecId
  TableId table;                   ///< tables the frame needs; 0: none
  std::uint64_t created_unix_ms = 0;
  std::uint64_t expires_unix_ms = 0;  ///< 0: never
  bool pinned = false;                ///< never reclaimed

  /// Of all extents, with padding.
  std::uint64_t record_bytes() const {
    std::uint64_t bytes = where.bytes;
    for (const RecordLocation& extent : more) bytes += extent.bytes;
    return bytes;
  }
  /// Of the extents that lie in this content of a segment, with padding; 0: none does.
  std::uint64_t bytes_in(SegmentId segment, std::uint32_t generation) const {
    const auto bytes_of = [&](const RecordLocation& extent) {
      return extent.segment == segment && extent.generation == generation ? extent.bytes : 0;
    };
    std::uint64_t bytes = bytes_of(where);
    for (const RecordLocation& extent : more) bytes += bytes_of(extent);
    return bytes;
  }
  bool expired(std::uint64_t now_unix_ms) const {
    return expires_unix_ms != 0 && expires_unix_ms <= now_unix_ms;
  }

  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

}  // namespace kvstrata::storage
