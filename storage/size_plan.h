// A SizePlan is how a store divides its disk budget: size and number of segments, the index's
// share.
#pragma once

#include <cstdint>

#include "kvstrata/result.h"

namespace kvstrata::storage {

inline constexpr std::uint64_t disk_budget_min = std::uint64_t{64} << 20;
/// Kept free for reclaim: one to write what stays, one more while that one fills up.
inline constexpr std::uint64_t reserve_segments = 2;
/// Directories, `lock`, `identity`, and what the file system rounds up.
inline constexpr std::uint64_t fixed_bytes = std::uint64_t{128} << 10;

struct SizePlan {
  std::uint64_t budget_bytes = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t index_reserve_bytes = 0;  ///< counted as used even while the index is smaller
  std::uint64_t record_bytes_max = 0;     ///< a quarter of a segment's room
  std::uint64_t frame_bytes_max = 0;      ///< so that one frame never asks for most of the store
};

/// `segment_bytes` 0 chooses clamp(budget / 16, 4 MiB, 256 MiB). `invalid_argument` names the
/// limit.
/// An `index_reserve_bytes` other than 0 is taken as it is, for stores of tests, and lifts the
/// lower bound of the budget.
Result<SizePlan> plan_sizes(std::uint64_t budget_bytes, std::uint64_t segment_bytes,
                            std::uint64_t index_reserve_bytes = 0);

}  // namespace kvstrata::storage
