// A ParameterSample is a random choice of a layer group's stored blocks, decoded, for fitting codec
// parameters on. Read from the store one block after the other; any thread that may wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "daemon/engine/namespaces.h"
#include "storage/store.h"

namespace kvstrata::daemon {

/// What of a namespace a fit has to know; nothing of it changes meanwhile.
struct FitTarget {
  NamespaceId ns;
  std::uint16_t group = 0;
  bool opaque = false;
  DType dtype = DType::bf16;
  codec::BlockShape shape;  ///< of its blocks; opaque: unused
  std::shared_ptr<CodecTables> tables;
  std::vector<BlockKey> recent;  ///< blocks that half of a sample is to be of; may be empty

  codec::BlockShape shape_of(std::uint64_t raw_bytes) const {
    return opaque ? codec::BlockShape::opaque(dtype, raw_bytes) : shape;
  }
};

struct SampledBlock {
  ByteVector payload;
  std::uint32_t first_position = 0;
};

/// At most `blocks_max` blocks and `bytes_max` bytes of payload, at random, but half of it of the
/// target's recent ones; fewer if the store has no more, or `cancelled` becomes true. Blocks that
/// can't be read are passed over.
std::vector<SampledBlock> sample_blocks(storage::Store& store, const FitTarget& target,
                                        std::size_t blocks_max, std::uint64_t bytes_max,
                                        const std::atomic<bool>& cancelled);

}  // namespace kvstrata::daemon
