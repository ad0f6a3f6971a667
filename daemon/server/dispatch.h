// The table of verbs: who handles each, and what it may bring. Stateless; control thread.
#pragma once

#include <cstdint>

#include "daemon/server/request.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

/// Starts a request; an error is its answer, and then nothing was started.
using Handler = Status (*)(const RequestPtr& request);

struct VerbRule {
  Handler handle = nullptr;
  std::uint64_t payload_bytes_max = 0;
  bool admin = false;           ///< only for tenants with that right
  bool while_draining = false;  ///< still answered when the daemon is going
};

/// For any verb a client may send: 1..verb_max but `event`.
const VerbRule& rule_of(protocol::Verb verb);

}  // namespace kvstrata::daemon
