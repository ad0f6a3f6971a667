#include "predictor/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "kvstrata/check.h"

namespace kvstrata::predictor {

namespace {

constexpr float probability_top = 8191;

/// Scores of one query against keys, before softmax_scale.
float dot(const CodeView& query, const std::int16_t* key, const float* key_scales) {
  float sum = 0;
  for (std::uint32_t g = 0; g < query.groups(); ++g) {
    std::int32_t products = 0;
    for (std::uint32_t i = 0; i < query.group; ++i) {
      products += std::int32_t{query.codes[g * query.group + i]} * key[g * query.group + i];
    }
    sum = std::fma(static_cast<float>(products), query.scales[g] * key_scales[g], sum);
  }
  return sum;
}

}  // namespace

bool SequenceLayer::append(std::span<const float> k, std::span<const float> v) {
  const std::uint32_t channels = config_->kv_channels(), head_dim = config_->head_dim;
  KV_CHECK(k.size() == v.size() && k.size() % (std::size_t{channels} * key_block) == 0,
           "K and V of other tokens than the arithmetic is for");
  const auto added = static_cast<std::uint32_t>(k.size() / channels);
  bool finite = true;
  CodeRows keys(added * config_->kv_heads, head_dim, largest_group, top_of_13_bits);
  for (std::size_t row = 0; row < std::size_t{added} * config_->kv_heads; ++row) {
    finite &= keys.set(row, k.subspan(row * head_dim, head_dim));
  }
  CodeRows values(added / key_block * channels, key_block, largest_group, top_of_13_bits);
  std::array<float, key_block> column{};
  for (std::uint32_t block = 0; block < added / key_block; ++block) {
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      for (std::uint32_t t = 0; t < key_block; ++t) {
        column[t] = v[(std::size_t{block} * key_block + t) * channels + channel];
      }
      finite &= values.set(std::size_t{block} * channels + channel, column);
    }
  }
  keys_.insert(keys_.end(), keys.codes().begin(), keys.codes().end());
  key_scales_.insert(key_scales_.end(), keys.scales().begin(), keys.scales().end());
  values_.insert(values_.end(), values.codes().begin(), values.codes().end());
  value_scales_.insert(value_scales_.end(), values.scales().begin(), values.scales().end());
  tokens_ += added;
  return finite;
}

bool SequenceLayer::attend(std::uint32_t head, std::uint32_t position, std::span<const float> q,
                           std::span<float> out) const {
  const std::uint32_t kv_head = head / (config_->heads / config_->kv_heads);
  const std::uint32_t head_dim = config_->head_dim;
  CodeRows query(1, head_dim, largest_group, top_of_13_bits);
  bool finite = query.set(0, q);
  const CodeView codes = query.view();
  const std::uint32_t first =
      config_->window != 0 && position >= config_->window ? position - config_->window + 1 : 0;
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
  for (float& o : out) o = 0;
  for (std::uint32_t block = first / key_block; block <= position / key_block; ++block) {
    std::array<float, key_block> scores{};
    std::array<bool, key_block> seen{};
    float block_largest = -std::numeric_limits<float>::infinity();
    for (std::uint32_t t = 0; t < key_block; ++t) {
      const std::uint32_t at = block * key_block + t;
      seen[t] = at >= first && at <= position;
      if (!seen[t]) continue;
      const std::size_t row = std::size_t{at} * config_->kv_heads + kv_head;
      scores[t] = dot(codes, keys_.data() + row * codes.groups() * largest_group,
                      key_scales_.data() + row * codes.groups()) *
                  config_->softmax_scale;
      finite &= std::isfinite(scores[t]);
      block_largest = scores[t] > block_largest ? scores[t] : block_largest;
    }
    const float next = largest > block_largest ? largest : block_largest;
    const bool is_first = largest < 0 && std::isinf(largest);
    const float keep = is_first ? 0 : exp_of_negative(largest - next);
    std::array<std::int32_t, key_block> weights{};
    std::int32_t total = 0;
    for (std::uint32_t t = 0; t < key_block; ++t) {
      if (!seen[t]) continue;
      weights[t] = static_cast<std::int32_t>(
          std::nearbyint(probability_top * exp_of_negative(scores[t] - next)));
      total += weights[t];
    }
    sum = std::fma(sum, keep, static_cast<float>(total));
    for (std::uint32_t channel = 0; channel < head_dim; ++channel) {
      const std::size_t row =
          std::size_t{block} * config_->kv_channels() + kv_head * head_dim + channel;
      std::int32_t products = 0;
      for (std::uint32_t t = 0; t < key_block; ++t) {
        products += weights[t] * values_[row * key_block + t];
      }
      out[channel] =
          std::fma(out[channel], keep, static_cast<float>(products) * value_scales_[row]);
    }
    largest = next;
  }
  for (float& o : out) o /= sum;
  return finite;
}

}  // namespace kvstrata::predictor
