// Opening a store: the lock, the index (or a fresh one in place of a broken one), the segment rows.
// Nothing here reads segments or visits blocks, so it takes the same time however much is stored.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/store_state.h"

namespace kvstrata::storage {

struct OpenedState {
  std::unique_ptr<StoreState> state;
  std::string empty_because;  ///< empty: the index was as it should be
  std::vector<SegmentTable::Row> open_segments;
};

Result<OpenedState> open_state(StoreOptions options);

/// Leaves an errand for each segment whose file is not among `names`.
void find_lost_segments(StoreState& state, const std::vector<std::string>& names);

}  // namespace kvstrata::storage
