// The fixed header in front of every message: its bytes, and the checks both ends make before they
// believe any length in it. Stateless; any thread.
#pragma once

#include <array>

#include "kvstrata/bytes.h"
#include "kvstrata/protocol.h"
#include "kvstrata/result.h"

namespace kvstrata::protocol {

inline constexpr std::size_t header_bytes = sizeof(Header);
using HeaderBytes = std::array<std::byte, header_bytes>;

HeaderBytes serialize(const Header& header);

/// The fields as they stand, unchecked: for the request id of an error reply.
Header load_header(std::span<const std::byte, header_bytes> bytes);

/// `protocol` for bytes that are not protocol 1, `too_large` for a length over its limit.
/// Either way the connection can't go on.
Status validate(const Header& header);

/// load_header() and validate() of exactly 32 bytes.
Result<Header> parse_header(ByteView bytes);

}  // namespace kvstrata::protocol
