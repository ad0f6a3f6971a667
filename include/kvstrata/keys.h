// Keys: from tenant, model and tokens to the 32-byte names blocks are stored under.
// Grammar, examples and golden values: doc/keys.md.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/id.h"
#include "kvstrata/model.h"
#include "kvstrata/result.h"

namespace kvstrata {

/// A BLAKE2b-256 digest.
struct Hash256 {
  std::array<std::byte, 32> bytes{};

  friend auto operator<=>(const Hash256&, const Hash256&) = default;
  std::string hex() const;
  static Result<Hash256> from_hex(std::string_view text);
  ByteView view() const { return bytes; }
};

/// Everything that separates one cache from another. An absent optional field and an empty one are
/// the same. `weight_epoch` is the daemon's; clients learn it at registration.
struct NamespaceSpec {
  std::string tenant;  ///< 1..64 bytes
  ModelDescriptor model;
  std::string salt;                     ///< 0..256 bytes
  std::string adapter;                  ///< LoRA name or hash, 0..256 bytes
  std::vector<std::string> extra_keys;  ///< at most 16, each 0..256 bytes; order matters
  std::uint64_t weight_epoch = 0;
};

/// The canonical bytes of a spec: every field typed and length-prefixed (doc/keys.md).
ByteVector namespace_bytes(const NamespaceSpec& spec);

/// BLAKE2b-256 of namespace_bytes(). It is h[-1], the parent of a sequence's first block.
Hash256 namespace_hash(const NamespaceSpec& spec);

/// h[i] = BLAKE2b-256(parent ‖ token ids as u32 little-endian ‖ per extra key: u32 length ‖ bytes).
Hash256 block_hash(const Hash256& parent, std::span<const std::uint32_t> tokens,
                   std::span<const std::string> extra_keys = {});

/// The hashes of all full blocks of `tokens`; a partial last block has none.
std::vector<Hash256> prefix_hashes(const Hash256& namespace_hash,
                                   std::span<const std::uint32_t> tokens,
                                   std::uint32_t block_tokens);

/// The digest of a key a client brings itself (1..256 bytes), apart from all prefix hashes.
Hash256 opaque_hash(const Hash256& namespace_hash, ByteView key);

/// Checks ids against [0, vocab_size) ([0, 2^31) for 0); nothing is ever wrapped or cut.
Status validate_tokens(std::span<const std::uint32_t> tokens, std::uint32_t vocab_size);

/// The name of one block in one store. `digest` is a prefix or opaque hash and so already depends
/// on the namespace; `ns` makes a namespace's blocks one range of the index.
struct BlockKey {
  NamespaceId ns;
  Hash256 digest;
  std::uint16_t group = 0;

  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

}  // namespace kvstrata

template <>
struct std::hash<kvstrata::Hash256> {
  std::size_t operator()(const kvstrata::Hash256& digest) const noexcept {
    return kvstrata::load_le<std::size_t>(digest.bytes.data());  // a digest is uniform already
  }
};

template <>
struct std::hash<kvstrata::BlockKey> {
  std::size_t operator()(const kvstrata::BlockKey& key) const noexcept {
    return std::hash<kvstrata::Hash256>{}(key.digest) + 0x9e3779b97f4a7c15ULL * key.group;
  }
};
