// An audit counts a store anew, from its index and its directory, and sets that beside what the
// store believes.
//
// Threads: safe from any; it holds the store's changes up for one segment at a time.
#pragma once

#include "storage/store_state.h"

namespace kvstrata::storage {

Result<StoreAudit> audit_store(StoreState& state);

}  // namespace kvstrata::storage
