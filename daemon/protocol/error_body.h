// Errors on the wire: the header's status and the body `{kind, message}`. Stateless; any thread.
#pragma once

#include "daemon/protocol/body.h"
#include "kvstrata/result.h"

namespace kvstrata::protocol {

inline constexpr std::size_t error_message_bytes_max = 4096;

/// The kind a status names; `internal` for one this build does not know. `status` is not 0.
ErrorKind kind_of_status(std::uint16_t status);

/// `{kind, message}`; a message over its limit is cut.
Body error_body(const Error& error);

/// The error a reply with this status and body says; never fails, a body without a message gets
/// one.
Error decode_error(std::uint16_t status, const Body& body);

}  // namespace kvstrata::protocol
