// The value of the `segments` column family: all that must be known of a segment without reading
// it. Few rows, read whole at start. Byte layout: doc/index-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvstrata/result.h"

namespace kvstrata::storage {

enum class SegmentState : std::uint8_t {
  free = 1,    ///< holds nothing; `generation` is the one its next content will have
  open = 2,    ///< being appended to
  sealed = 3,  ///< full or closed; waits for reclaim
  lost = 4,    ///< condemned by a failed sync, or its file is gone: to be emptied and removed
};

struct SegmentValue {
  SegmentState state = SegmentState::free;
  std::uint32_t generation = 1;
  std::uint64_t bytes = 0;         ///< of the file
  std::uint64_t tail = 0;          ///< end of the last record the index knows
  std::uint64_t live_bytes = 0;    ///< of records the index names
  std::uint64_t live_blocks = 0;   ///< blocks whose first extent is here
  std::uint64_t order = 0;         ///< rises with every opening; the lowest sealed is the oldest
  std::uint64_t sequence_end = 0;  ///< above the sequence of every record here

  friend bool operator==(const SegmentValue&, const SegmentValue&) = default;
};
std::string segment_value(const SegmentValue& value);
Result<SegmentValue> parse_segment_value(std::string_view text);

}  // namespace kvstrata::storage
