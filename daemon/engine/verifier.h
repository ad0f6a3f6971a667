// Reads a page of stored blocks back and decodes them, to see whether the disk still holds what was
// put. Changes nothing.
#pragma once

#include <optional>

#include "daemon/engine/core.h"
#include "daemon/engine/namespaces.h"

namespace kvstrata::daemon {

/// Checks up to `limit` blocks of `ns` after `after`. Control thread; the work runs on workers.
void verify_page(Core& core, const Namespace& ns, std::optional<BlockKey> after, std::size_t limit,
                 Done<Verified> done);

}  // namespace kvstrata::daemon
