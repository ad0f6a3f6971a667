// A sub-stream's decoded bytes in memory order: their copy and their sum. Stateless functions.
#pragma once

#include <cstdint>

#include "codec/geometry.h"

namespace kvstrata::codec {

/// XXH3-64 over the sub-stream's bytes at `place` of the payload, runs concatenated.
std::uint64_t hash_substream(const Placement& place, const std::byte* payload);

/// Copies the sub-stream's place.bytes() between the payload and one contiguous piece.
void pack_substream(const Placement& place, const std::byte* payload, std::byte* packed);
void unpack_substream(const Placement& place, const std::byte* packed, std::byte* payload);

}  // namespace kvstrata::codec
