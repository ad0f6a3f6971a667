// New blocks: what COMMIT and PUT say about the blocks they bring. Stateless; any thread.
#pragma once

#include <optional>
#include <vector>

#include "daemon/protocol/selection_body.h"

namespace kvstrata::protocol {

/// Identities in order, continuing `parent` (none: the sequence's start). `lengths`: bytes of each
/// opaque value (COMMIT: used bytes of each slot), or empty.
struct NewBlocksView {
  std::uint32_t ns = 0;
  std::uint16_t group = 0;
  SelectBy by = SelectBy::tokens;  ///< tokens or key
  std::optional<Hash256> parent = {};
  std::span<const std::uint32_t> tokens = {};
  std::span<const std::string> keys = {};
  const Extras* extras = nullptr;
  std::span<const std::uint64_t> lengths = {};
  std::span<const std::uint64_t> slots = {};  ///< COMMIT only
  bool durable = false;
  bool pinned = false;
  std::optional<std::uint64_t> ttl_ms = {};
};

struct WireNewBlocks {
  std::uint32_t ns = 0;
  std::uint16_t group = 0;
  SelectBy by = SelectBy::tokens;
  std::optional<Hash256> parent;
  std::vector<std::uint32_t> tokens;
  std::vector<std::string> keys;
  Extras extras;
  std::vector<std::uint64_t> lengths;
  std::vector<std::uint64_t> slots;
  bool durable = false;
  bool pinned = false;
  std::optional<std::uint64_t> ttl_ms;

  NewBlocksView view() const {
    return {ns, group, by, parent, tokens, keys, &extras, lengths, slots, durable, pinned, ttl_ms};
  }
  friend bool operator==(const WireNewBlocks&, const WireNewBlocks&) = default;
};

/// Sets the fields and appends the identities to `payload`; the caller of PUT appends the values.
Status encode_new_blocks(const NewBlocksView& blocks, Body& body, ByteVector& payload);

/// COMMIT: the identities must fill `payload` exactly; `slots` must be there.
Result<WireNewBlocks> decode_commit(const Body& body, ByteView payload);

struct WirePut {
  WireNewBlocks blocks;
  std::uint64_t values_offset = 0;  ///< where in the payload the first value begins
};

/// PUT: the sum of `lengths` must be what follows the identities.
Result<WirePut> decode_put(const Body& body, ByteView payload);

}  // namespace kvstrata::protocol
