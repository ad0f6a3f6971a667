// ModelDescriptor: everything that decides the bytes of a block. Two descriptors that differ in
// any field never share a key (see keys.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvstrata/result.h"

namespace kvstrata {

/// The type of one scalar of the cache. Numbers are part of the formats.
enum class DType : std::uint8_t {
  bf16 = 1,
  fp16 = 2,
  fp8_e4m3 = 3,
  fp8_e5m2 = 4,
  int8 = 5,
  fp32 = 6
};

std::string_view to_string(DType dtype);
Result<DType> parse_dtype(std::string_view name);  ///< "bf16", "fp16", "fp8_e4m3", ...
constexpr std::uint32_t bytes_per_scalar(DType dtype) {
  return dtype == DType::fp32 ? 4 : (dtype == DType::bf16 || dtype == DType::fp16) ? 2 : 1;
}

/// What the layers of a group keep. `sliding_window` needs `window_tokens`; `recurrent_state` is
/// one snapshot a block; `mla_latent` has K only (head_dim_v = 0, kv_heads = 1).
enum class GroupKind : std::uint8_t {
  full_attention = 1,
  sliding_window = 2,
  recurrent_state = 3,
  mla_latent = 4,
};

std::string_view to_string(GroupKind kind);
Result<GroupKind> parse_group_kind(std::string_view name);

/// Layers that are stored, found and evicted together: one block of a group is one payload.
struct LayerGroup {
  GroupKind kind = GroupKind::full_attention;
  std::uint32_t layers = 0;         ///< 1..1024
  std::uint32_t kv_heads = 0;       ///< of this shard, 1..1024
  std::uint32_t head_dim_k = 0;     ///< scalars, 1..65536
  std::uint32_t head_dim_v = 0;     ///< scalars, 0..65536; 0 only for mla_latent, recurrent_state
  std::uint32_t window_tokens = 0;  ///< sliding_window only

  friend bool operator==(const LayerGroup&, const LayerGroup&) = default;
};

/// The order of a payload's axes, outermost first: L layer, S side (K or V), P page, H head,
/// T token in page, C channel. K and V may differ after S only. So a layout is a bijection by
/// construction, and strides follow from it.
///   transformers [layer][K,V][head][token][channel]:      "LSPHTC" for both
///   vLLM CPU, per page and head all K channel-major, then V token-major: K "LPHSCT", V "LPHSTC"
///   vLLM GPU (2, blocks, block_size, heads, dim) per layer: "LSPTHC"
struct Layout {
  std::string k_axes = "LSPHTC";
  std::string v_axes = "LSPHTC";
  std::uint32_t page_tokens = 0;  ///< tokens of one page; 0: the whole block is one page
  std::string isa;                ///< non-empty where the engine packs by CPU type, e.g. "amx"

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Which part of the model this shard holds. `replicated` blocks are the same on every rank and are
/// stored once; a slice names its ranges, never a bare rank.
struct Shard {
  struct Range {
    std::uint32_t first = 0, last = 0, of = 0;  ///< [first, last) of `of`; of = 0: everything
    friend bool operator==(const Range&, const Range&) = default;
  };
  Range heads, layers, tokens;  ///< all-default: replicated

  friend bool operator==(const Shard&, const Shard&) = default;
};

struct ModelDescriptor {
  std::string fingerprint;  ///< identifies the weights, 1..128 bytes, e.g. hex of a hash
  DType dtype = DType::bf16;
  std::uint32_t block_tokens = 256;  ///< 16..1024
  std::uint32_t vocab_size = 0;      ///< token ids are below this; 0: below 2^31
  std::vector<LayerGroup> groups;  ///< 1..64; none: a namespace of opaque keys, values of any size
  Layout layout;
  Shard shard;

  friend bool operator==(const ModelDescriptor&, const ModelDescriptor&) = default;
};

inline constexpr std::uint64_t block_bytes_max = std::uint64_t{1} << 30;

/// Names the first field that is out of range or contradicts another; ok() otherwise.
Status validate(const ModelDescriptor& descriptor);

/// Bytes of one block of `group` of a valid descriptor.
std::uint64_t block_bytes(const ModelDescriptor& descriptor, const LayerGroup& group);

}  // namespace kvstrata
