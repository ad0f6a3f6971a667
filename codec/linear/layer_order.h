// LayerOrder: the channels of a layer in the order in which they are coded, and where each lies in
// the payload. K head by head, pairs that RoPE turns side by side, then V.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/geometry.h"
#include "codec/linear/rope.h"

namespace kvstrata::codec {

class LayerOrder {
 public:
  struct Channel {
    Side side;
    std::uint32_t number;  ///< head · head_dim + dim
    std::int32_t pair;     ///< of RoPE; -1: none. The first of two has `first_of_pair`
    bool first_of_pair;
  };

  LayerOrder(const BlockShape& shape, std::uint32_t rotary_dim);

  const std::vector<Channel>& channels() const { return channels_; }
  std::size_t size() const { return channels_.size(); }

 private:
  std::vector<Channel> channels_;
};

/// Where a layer's scalars lie in a payload.
class LayerPlaces {
 public:
  LayerPlaces(const BlockShape& shape, std::uint32_t layer);

  std::uint64_t at(const LayerOrder::Channel& channel, std::uint32_t token) const {
    return of(channel).at(channel.number, token);
  }
  /// The patterns of a channel's tokens from 0 on, and back; of scalars of 1 or 2 bytes.
  void load(ByteView payload, const LayerOrder::Channel& channel,
            std::span<std::uint32_t> patterns) const;
  void store(const LayerOrder::Channel& channel, std::span<const std::uint32_t> patterns,
             MutableBytes payload) const;

 private:
  const Placement& of(const LayerOrder::Channel& channel) const {
    return channel.side == Side::k ? k_ : v_;
  }

  Placement k_, v_;
};

}  // namespace kvstrata::codec
