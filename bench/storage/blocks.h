// The blocks the storage benchmark stores: frames of the raw codec, named by number. They all have
// the same payload; what tells them apart is key and identity, as far as a disk can see.
#pragma once

#include <cstdint>

#include "bench/common/must.h"
#include "codec/shape.h"
#include "storage/store.h"

namespace kvstrata::bench {

class Blocks {
 public:
  /// Blocks with a payload of a multiple of 32 KiB, in chains of so many.
  Blocks(std::uint64_t payload_bytes, std::uint64_t chain_blocks);

  const NamespaceSpec& spec() const { return spec_; }
  std::uint64_t payload_bytes() const { return payload_.size(); }
  std::uint64_t frame_bytes() const { return frame_.size(); }

  static BlockKey key(NamespaceId ns, std::uint64_t number);
  /// A put of block `number`, which continues `number - 1` unless it begins a chain.
  storage::AppendRequest put(NamespaceId ns, std::uint64_t number) const;
  /// The same with a frame that holds whatever lay in its memory: making frames is the encoder's
  /// work and no part of storing them. It can't be decoded.
  storage::AppendRequest put_unfilled(NamespaceId ns, std::uint64_t number) const;
  /// Decodes and checks all of it: payload, identity, checksums.
  bool intact(std::uint64_t number, const storage::ReadRecord& record) const;

 private:
  const std::uint64_t chain_blocks_;
  NamespaceSpec spec_;
  codec::BlockShape shape_;
  ByteVector payload_, frame_;
  std::uint64_t payload_xxh3_ = 0;
};

/// Puts blocks first..end-1, at most `appends_max` not yet durable at a time; returns when all are.
void put_all(storage::Store& store, NamespaceId ns, const Blocks& blocks, std::uint64_t first,
             std::uint64_t end);
/// The entry of a block that is stored.
std::optional<storage::IndexEntry> find(const storage::Store& store, const BlockKey& key);
/// One read, waited for.
Result<storage::ReadRecord> read(storage::Store& store, const BlockKey& key,
                                 const storage::IndexEntry& entry);

inline constexpr int appends_max = 256;

}  // namespace kvstrata::bench
