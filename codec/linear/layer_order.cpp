#include "codec/linear/layer_order.h"

#include <cstring>

#include "codec/scalar_format.h"

namespace kvstrata::codec {

LayerOrder::LayerOrder(const BlockShape& shape, std::uint32_t rotary_dim) {
  const std::uint32_t half = rotary_dim / 2;
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
    const std::uint32_t first = head * shape.head_dim_k;
    for (std::uint32_t j = 0; j < half; ++j) {
      channels_.push_back({Side::k, first + j, static_cast<std::int32_t>(j), true});
      channels_.push_back({Side::k, first + j + half, static_cast<std::int32_t>(j), false});
    }
    for (std::uint32_t dim = rotary_dim; dim < shape.head_dim_k; ++dim) {
      channels_.push_back({Side::k, first + dim, -1, false});
    }
  }
  for (std::uint32_t c = 0; c < shape.channels(Side::v); ++c) {
    channels_.push_back({Side::v, c, -1, false});
  }
}

LayerPlaces::LayerPlaces(const BlockShape& shape, std::uint32_t layer) {
  const std::uint32_t sides = shape.sides();
  k_ = placement_of(shape, layer * sides);
  if (sides == 2) v_ = placement_of(shape, layer * sides + 1);
}

void LayerPlaces::load(ByteView payload, const LayerOrder::Channel& channel,
                       std::span<std::uint32_t> patterns) const {
  for (std::uint32_t t = 0; t < patterns.size(); ++t) {
    patterns[t] = load_scalar(payload.data() + at(channel, t), k_.scalar_bytes);
  }
}

void LayerPlaces::store(const LayerOrder::Channel& channel, std::span<const std::uint32_t> patterns,
                        MutableBytes payload) const {
  for (std::uint32_t t = 0; t < patterns.size(); ++t) {
    std::memcpy(payload.data() + at(channel, t), &patterns[t], k_.scalar_bytes);
  }
}

}  // namespace kvstrata::codec
