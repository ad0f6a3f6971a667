// Where a block stands in its sequence, which the linear codec has to know to take RoPE off K.
// Stateless functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "kvstrata/keys.h"
#include "storage/store.h"

namespace kvstrata::daemon {

/// The position of the first token of a block that continues `parent` (none: it is the first),
/// counted by going back over what the store has of its prefix. Where that breaks off it is too
/// low, which costs the codec some gain, no more.
std::uint32_t find_first_position(const storage::Store& store, const BlockKey& block,
                                  std::optional<Hash256> parent, std::uint32_t block_tokens);

}  // namespace kvstrata::daemon
