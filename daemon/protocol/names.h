// How payloads name blocks: the parts selections and new blocks have in common. Private to
// daemon/protocol. Stateless; any thread.
#pragma once

#include "daemon/protocol/selection_body.h"

namespace kvstrata::protocol {

/// `too_large` if a request may not name so many.
Status check_count(SelectBy by, std::size_t count);

Result<std::uint32_t> get_ns(const Body& body);
Result<std::uint16_t> get_group(const Body& body);
Result<SelectBy> get_by(const Body& body);
Result<std::uint32_t> get_count(const Body& body, SelectBy by);
Result<Extras> get_extras(const Body& body, SelectBy by);

void append_hashes(std::span<const Hash256> hashes, ByteVector& payload);
void append_tokens(std::span<const std::uint32_t> tokens, ByteVector& payload);
Status append_keys(std::span<const std::string> keys, ByteVector& payload);

/// Each takes `count` names off the front of `payload`; memory is taken only for bytes that came.
Status take_hashes(ByteView& payload, std::uint32_t count, std::vector<Hash256>& out);
Status take_tokens(ByteView& payload, std::uint32_t count, std::vector<std::uint32_t>& out);
Status take_keys(ByteView& payload, std::uint32_t count, std::vector<std::string>& out);

/// `invalid_argument` if bytes are left.
Status check_consumed(ByteView payload);

}  // namespace kvstrata::protocol
