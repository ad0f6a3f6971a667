#include "codec/linear/layer_order.h"

#include <algorithm>
#include <cstring>

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

namespace {

/// Calls visit(token, offset) for all tokens of a channel.
template <typename Visit>
void for_each_token(const Placement& place, std::uint32_t channel, std::size_t tokens,
                    Visit&& visit) {
  for (std::uint32_t t = 0; t < tokens;) {
    std::uint64_t offset = place.at(channel, t);
    const std::size_t end = std::min<std::size_t>(tokens, t + place.page_tokens);
    for (; t < end; ++t, offset += place.token_stride) visit(t, offset);
  }
}

template <typename Scalar>
void load_row(const Placement& place, std::uint32_t channel, ByteView payload,
              std::span<std::uint32_t> patterns) {
  for_each_token(place, channel, patterns.size(), [&](std::uint32_t token, std::uint64_t offset) {
    Scalar scalar;
    std::memcpy(&scalar, payload.data() + offset, sizeof scalar);
    patterns[token] = scalar;
  });
}

template <typename Scalar>
void store_row(const Placement& place, std::uint32_t channel,
               std::span<const std::uint32_t> patterns, MutableBytes payload) {
  for_each_token(place, channel, patterns.size(), [&](std::uint32_t token, std::uint64_t offset) {
    const auto scalar = static_cast<Scalar>(patterns[token]);
    std::memcpy(payload.data() + offset, &scalar, sizeof scalar);
  });
}

}  // namespace

void LayerPlaces::load(ByteView payload, const LayerOrder::Channel& channel,
                       std::span<std::uint32_t> patterns) const {
  const Placement& place = of(channel);
  place.scalar_bytes == 1 ? load_row<std::uint8_t>(place, channel.number, payload, patterns)
                          : load_row<std::uint16_t>(place, channel.number, payload, patterns);
}

void LayerPlaces::store(const LayerOrder::Channel& channel, std::span<const std::uint32_t> patterns,
                        MutableBytes payload) const {
  const Placement& place = of(channel);
  place.scalar_bytes == 1 ? store_row<std::uint8_t>(place, channel.number, patterns, payload)
                          : store_row<std::uint16_t>(place, channel.number, patterns, payload);
}

}  // namespace kvstrata::codec
