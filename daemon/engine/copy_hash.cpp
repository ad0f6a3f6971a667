#include "daemon/engine/copy_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>

namespace kvstrata::daemon {

namespace {

constexpr std::size_t piece_bytes = 64 * 1024;  // stays in the second-level cache between the two

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

std::uint64_t copy_and_hash(ByteView from, MutableBytes to) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_64bits_reset(state.get());
  for (std::size_t at = 0; at < from.size(); at += piece_bytes) {
    const std::size_t bytes = std::min(piece_bytes, from.size() - at);
    std::memcpy(to.data() + at, from.data() + at, bytes);
    XXH3_64bits_update(state.get(), to.data() + at, bytes);
  }
  return XXH3_64bits_digest(state.get());
}

std::uint64_t hash_payload(ByteView bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace kvstrata::daemon
