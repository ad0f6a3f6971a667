// Selections: how a request names stored blocks, by hash, by tokens or by opaque key.
// Stateless; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/protocol/body.h"
#include "kvstrata/keys.h"

namespace kvstrata::protocol {

enum class SelectBy : std::uint8_t { hash, tokens, key };
std::string_view to_string(SelectBy by);

inline constexpr std::uint32_t tokens_per_request_max = blocks_per_request_max * 1024;
inline constexpr std::size_t opaque_key_bytes_max = 256;
inline constexpr std::size_t extra_keys_per_block_max = 16;
inline constexpr std::size_t extra_key_bytes_max = 256;
inline constexpr std::uint32_t shards_per_request_max = 64;

using Extras = IndexedBytes;  ///< extra keys by block index

/// What a client sends; nothing is copied. Exactly the span that `by` names is used.
struct SelectionView {
  std::uint32_t ns = 0;
  std::uint16_t group = 0;
  SelectBy by = SelectBy::hash;
  std::span<const Hash256> hashes = {};
  std::span<const std::uint32_t> tokens = {};
  std::span<const std::string> keys = {};
  const Extras* extras = nullptr;  ///< tokens only
};

/// What a server receives. Exactly the vector that `by` names is filled.
struct WireSelection {
  std::uint32_t ns = 0;
  std::uint16_t group = 0;
  SelectBy by = SelectBy::hash;
  std::vector<Hash256> hashes;
  std::vector<std::uint32_t> tokens;
  std::vector<std::string> keys;
  Extras extras;

  SelectionView view() const { return {ns, group, by, hashes, tokens, keys, &extras}; }
  friend bool operator==(const WireSelection&, const WireSelection&) = default;
};

/// Sets ns, group, by, count, extras and appends the names to `payload`.
/// `too_large` over a limit of this header, `invalid_argument` for a key of 0 or > 256 bytes.
Status encode_selection(const SelectionView& selection, Body& body, ByteVector& payload);

/// Names must fill `payload` exactly.
Result<WireSelection> decode_selection(const Body& body, ByteView payload);

/// Takes the names off the front of `payload` (GROUP_LOOKUP has several selections in one).
Result<WireSelection> take_selection(const Body& body, ByteView& payload);

/// GROUP_LOOKUP: `shards`, payloads one after another.
Status encode_shards(std::span<const SelectionView> shards, Body& body, ByteVector& payload);
Result<std::vector<WireSelection>> decode_shards(const Body& body, ByteView payload);

}  // namespace kvstrata::protocol
