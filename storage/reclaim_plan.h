// A ReclaimPlan says which blocks of a segment stay when it is emptied. Kept are: blocks that must
// stay (pinned, held) and their ancestors, whatever they take; then touched blocks, then parents of
// blocks that live elsewhere, as long as they fit in half a segment. All others go, with everything
// that continues them.
#pragma once

#include <functional>
#include <vector>

#include "storage/removal.h"

namespace kvstrata::storage {

/// What the plan asks about blocks; all of it may change until the plan is carried out.
struct ReclaimRules {
  std::function<bool(const BlockKey&, const IndexEntry&)> must_stay;
  std::function<bool(const BlockKey&)> wanted;
  std::uint64_t now_unix_ms = 0;
  std::uint64_t keep_bytes_max = 0;  ///< of records that stay without having to
};

struct ReclaimPlan {
  std::vector<KeyedEntry> keep;  ///< parents before children
};

/// `candidates`: the live blocks with a record in the segment.
Result<ReclaimPlan> plan_reclaim(const Index& index, const ReclaimRules& rules,
                                 std::vector<KeyedEntry> candidates);

}  // namespace kvstrata::storage
