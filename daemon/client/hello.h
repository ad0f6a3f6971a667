// What a connection says first, and what the daemon says unasked, as plain data. Stateless.
#pragma once

#include "daemon/protocol/body.h"
#include "daemon/protocol/selection_body.h"
#include "kvstrata/client.h"

namespace kvstrata::client {

protocol::Body hello_body(const ClientOptions& options);

/// All but `shared_memory`. `unsupported` if the daemon speaks another protocol.
Result<ServerInfo> decode_hello_reply(const protocol::Body& body);

/// Fields an event does not have stay empty.
Result<ClientEvent> decode_event(const protocol::Body& body, ByteView payload);

}  // namespace kvstrata::client
