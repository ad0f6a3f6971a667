// One pass over a payload that copies it and hashes what was copied.
#pragma once

#include <cstdint>

#include "kvstrata/bytes.h"

namespace kvstrata::daemon {

/// Copies and returns XXH3-64 of the destination. The source may change meanwhile (it is a client's
/// memory): what is hashed is what is kept.
std::uint64_t copy_and_hash(ByteView from, MutableBytes to);

std::uint64_t hash_payload(ByteView bytes);  ///< XXH3-64

}  // namespace kvstrata::daemon
