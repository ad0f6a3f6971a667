// Small replies as the public structs. Stateless.
#pragma once

#include "daemon/protocol/body.h"
#include "kvstrata/client.h"

namespace kvstrata::client {

Result<Existing> decode_existing(const protocol::Body& body);
Result<Changed> decode_changed(const protocol::Body& body);
Result<Removal> decode_removal(const protocol::Body& body);
Result<Explanation> decode_explanation(const protocol::Body& body);
Result<Verification> decode_verification(const protocol::Body& body);
/// `key` is the array of maps; `next` may follow.
Result<Listing> decode_listing(const protocol::Body& body, std::string_view key);
/// Exactly `blocks` entries.
Result<Stored> decode_stored(const protocol::Body& body, std::size_t blocks);

}  // namespace kvstrata::client
