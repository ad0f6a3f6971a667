#include "codec/shape.h"

#include <algorithm>

#include "codec/geometry.h"

namespace kvstrata::codec {

BlockShape BlockShape::of(const ModelDescriptor& model, const LayerGroup& group) {
  BlockShape shape;
  shape.dtype = model.dtype;
  shape.layers = group.layers;
  shape.kv_heads = group.kv_heads;
  shape.head_dim_k = group.head_dim_k;
  shape.head_dim_v = group.head_dim_v;
  shape.layout = model.layout;
  shape.tokens = model.block_tokens;
  if (group.kind == GroupKind::recurrent_state) {  // one snapshot: pages of tokens mean nothing
    shape.tokens = 1;
    shape.layout.page_tokens = 0;
  }
  return shape;
}

BlockShape BlockShape::opaque(DType dtype, std::uint64_t bytes) {
  BlockShape shape;
  shape.dtype = dtype;
  shape.opaque_bytes = bytes;
  return shape;
}

std::uint64_t BlockShape::raw_bytes() const {
  if (is_opaque()) return opaque_bytes;
  const std::uint64_t dims = std::uint64_t{head_dim_k} + head_dim_v;
  return std::uint64_t{tokens} * layers * kv_heads * dims * bytes_per_scalar(dtype);
}

std::uint32_t BlockShape::substreams() const {
  if (is_opaque()) {
    return static_cast<std::uint32_t>((opaque_bytes + opaque_piece_bytes - 1) / opaque_piece_bytes);
  }
  return layers * sides();
}

std::uint64_t BlockShape::substream_bytes(std::uint32_t index) const {
  KV_CHECK(index < substreams(), "sub-stream index beyond the shape");
  if (is_opaque()) {
    return std::min(opaque_piece_bytes, opaque_bytes - index * opaque_piece_bytes);
  }
  const Side side = head_dim_v != 0 && index % 2 == 1 ? Side::v : Side::k;
  return std::uint64_t{channels(side)} * tokens * bytes_per_scalar(dtype);
}

std::uint32_t BlockShape::channels(Side side) const {
  return kv_heads * (side == Side::k ? head_dim_k : head_dim_v);
}

}  // namespace kvstrata::codec
