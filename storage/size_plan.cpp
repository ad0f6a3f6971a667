#include "storage/size_plan.h"

#include <algorithm>

#include "kvstrata/bytes.h"
#include "storage/segment/record.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

namespace {
constexpr std::uint64_t segments_min = 6;
}  // namespace

Result<SizePlan> plan_sizes(std::uint64_t budget_bytes, std::uint64_t segment_bytes,
                            std::uint64_t index_reserve_bytes) {
  const bool usual = index_reserve_bytes == 0;
  if (budget_bytes < (usual ? disk_budget_min : index_reserve_bytes)) {
    return Error(ErrorKind::invalid_argument, "the disk budget is " + std::to_string(budget_bytes) +
                                                  " bytes; the least is " +
                                                  std::to_string(disk_budget_min));
  }
  SizePlan plan;
  plan.budget_bytes = budget_bytes;
  plan.segment_bytes = segment_bytes != 0
                           ? segment_bytes
                           : std::clamp(budget_bytes / 16, 4_MiB, segment_bytes_max) & ~(1_MiB - 1);
  plan.index_reserve_bytes =
      usual ? std::clamp(budget_bytes / 16, 16_MiB, 4_GiB) : index_reserve_bytes;
  const std::uint64_t payload = budget_bytes - plan.index_reserve_bytes;
  if (plan.segment_bytes % record_alignment != 0 || plan.segment_bytes < segment_bytes_min ||
      plan.segment_bytes > segment_bytes_max) {
    return Error(ErrorKind::invalid_argument,
                 "segment_bytes is a multiple of 4096 from 65536 to 268435456, not " +
                     std::to_string(segment_bytes));
  }
  const std::uint64_t segments = payload / plan.segment_bytes;
  if (segments < segments_min) {
    return Error(ErrorKind::invalid_argument,
                 "the disk budget holds " + std::to_string(segments) + " segments of " +
                     std::to_string(plan.segment_bytes) + " bytes; the least is " +
                     std::to_string(segments_min));
  }
  // Without the superblock, so that four of the largest records fit.
  plan.record_bytes_max =
      (plan.segment_bytes - superblock_bytes) / 4 / record_alignment * record_alignment;
  plan.frame_bytes_max = (segments - reserve_segments) / 2 * plan.segment_bytes / 4 * 3;
  return plan;
}

}  // namespace kvstrata::storage
