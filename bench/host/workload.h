// What the host benchmark stores: 2 GiB of 1 MiB blocks, the same in kvstratad, in redis and in
// plain memory.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kvstrata/client.h"

namespace kvstrata::bench {

inline constexpr std::size_t block_bytes = 1u << 20;
inline constexpr std::size_t working_set_blocks = 2048;
inline constexpr std::size_t batch_blocks = 32;

/// A model whose blocks of 16 tokens have exactly 1 MiB.
NamespaceSpec megabyte_model();

/// A model with blocks of 256 tokens and a payload of 512 bytes: for index work alone.
NamespaceSpec index_model();

/// Tokens of sequence `number`, `blocks` blocks of `block_tokens`.
std::vector<std::uint32_t> tokens_of(std::uint32_t number, std::size_t blocks,
                                     std::uint32_t block_tokens);

/// The working set in plain memory, filled with random bytes.
class WorkingSet {
 public:
  WorkingSet();
  ByteView block(std::size_t index) const {
    return {bytes_.get() + index * block_bytes, block_bytes};
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

/// Sum of all 8-byte words; what a reader that looks at every byte costs at least.
std::uint64_t sum_of(ByteView bytes);

}  // namespace kvstrata::bench
