// Events of the engine as messages. Stateless; any thread.
#pragma once

#include "daemon/engine/requests.h"
#include "daemon/protocol/body.h"

namespace kvstrata::daemon {

struct EncodedEvent {
  protocol::Body body;
  ByteVector payload;  ///< hashes of 32 bytes
};

EncodedEvent encode_event(const Event& event);

}  // namespace kvstrata::daemon
