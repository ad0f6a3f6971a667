// A BlockShape is the geometry of one payload: what the codecs need of a model descriptor to find
// every scalar. Plain data, free to copy.
#pragma once

#include <cstdint>

#include "kvstrata/model.h"

namespace kvstrata::codec {

/// K or V of a layer.
enum class Side : std::uint8_t { k = 0, v = 1 };

struct BlockShape {
  DType dtype = DType::bf16;
  std::uint32_t layers = 1;
  std::uint32_t kv_heads = 1;
  std::uint32_t head_dim_k = 0;
  std::uint32_t head_dim_v = 0;
  std::uint32_t tokens = 0;
  Layout layout;
  std::uint64_t opaque_bytes = 0;  ///< for values of opaque keys; then all dimensions are unused

  /// The shape of blocks of `group`; the descriptor is valid (validate()).
  static BlockShape of(const ModelDescriptor& model, const LayerGroup& group);

  /// A value without declared axes: `bytes` bytes (0..block_bytes_max), scalars of `dtype` as far
  /// as they go, any tail kept as it is. Sub-streams are pieces of 1 MiB.
  static BlockShape opaque(DType dtype, std::uint64_t bytes);

  bool is_opaque() const { return head_dim_k == 0; }
  std::uint64_t raw_bytes() const;                                    ///< of the whole payload
  std::uint32_t sides() const { return head_dim_v == 0 ? 1 : 2; }     ///< of a layer: K, or K and V
  std::uint32_t substreams() const;                                   ///< layers x sides, or pieces
  std::uint64_t layer_bytes() const { return raw_bytes() / layers; }  ///< K and V; not opaque
  std::uint64_t substream_bytes(std::uint32_t index) const;           ///< decoded
  std::uint32_t channels(Side side) const;  ///< kv_heads x head_dim: one statistic each
};

}  // namespace kvstrata::codec
