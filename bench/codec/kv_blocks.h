// Blocks of a real model's cache, as bench/codec/dump_kv.py writes them, in any dtype.
#pragma once

#include <string>
#include <vector>

#include "codec/codec.h"

namespace kvstrata::bench {

/// Payloads of one shape.
struct KvBlocks {
  codec::BlockShape shape;
  std::vector<ByteVector> payloads;
  std::vector<std::uint32_t> first_positions;  ///< of each payload's first token in its sequence

  std::vector<ByteView> views() const;
  std::uint64_t bytes() const { return shape.raw_bytes() * payloads.size(); }
};

/// Every block of a file, at most `blocks_max`; ends the program if it can't be read.
KvBlocks load_kv(const std::string& path, std::size_t blocks_max = SIZE_MAX);

/// The same blocks in another dtype, each scalar rounded to nearest even; beyond the largest finite
/// value it is that value.
KvBlocks convert(const KvBlocks& bf16, DType dtype);

/// At most so many of the blocks, and of two kinds of text in turn.
KvBlocks first_blocks(const KvBlocks& blocks, std::size_t count);
KvBlocks interleaved(const KvBlocks& a, const KvBlocks& b);

/// The same blocks with layers [first, first + layers) alone.
KvBlocks cut_layers(const KvBlocks& blocks, std::uint32_t first, std::uint32_t layers);

}  // namespace kvstrata::bench
