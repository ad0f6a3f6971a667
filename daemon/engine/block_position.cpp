#include "daemon/engine/block_position.h"

#include <span>

namespace kvstrata::daemon {

namespace {

constexpr std::uint32_t blocks_back_max = 16'384;

}  // namespace

std::uint32_t find_first_position(const storage::Store& store, const BlockKey& block,
                                  std::optional<Hash256> parent, std::uint32_t block_tokens) {
  std::uint32_t blocks = 0;
  while (parent && blocks < blocks_back_max) {
    ++blocks;
    const BlockKey key{block.ns, *parent, block.group};
    std::optional<storage::IndexEntry> entry;
    const Status found = store.find(std::span(&key, 1), std::span(&entry, 1));
    if (!found || !entry) break;
    parent = entry->parent;
  }
  return blocks * block_tokens;
}

}  // namespace kvstrata::daemon
