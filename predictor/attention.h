// Attention over the exact K and V of a sequence: a SequenceLayer is what one layer keeps of them,
// in codes. Plain data, one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "predictor/model.h"

namespace kvstrata::predictor {

inline constexpr std::uint32_t key_block = 64;  ///< keys, by absolute position

/// K and V of a layer of all tokens of a sequence so far, from position 0 on.
class SequenceLayer {
 public:
  explicit SequenceLayer(const ModelConfig& config) : config_(&config) {}

  /// Adds tokens, a multiple of 64: k (turned) and v as binary32[tokens][kv_heads · head_dim].
  /// False if one is a NaN or an infinity; then nothing of it may be used.
  bool append(std::span<const float> k, std::span<const float> v);
  std::uint32_t tokens() const { return tokens_; }

  /// What a query head at `position` reads; q (turned) and out are binary32[head_dim]. The position
  /// is one of those added.
  bool attend(std::uint32_t head, std::uint32_t position, std::span<const float> q,
              std::span<float> out) const;

 private:
  const ModelConfig* config_;
  std::uint32_t tokens_ = 0;
  // Keys: [token][kv_head] rows of head_dim. Values: [block][kv_head][channel] rows of 64 tokens.
  std::vector<std::int16_t> keys_, values_;
  std::vector<float> key_scales_, value_scales_;
};

}  // namespace kvstrata::predictor
