// LinearPass: what encoder and decoder of the linear codec do alike, layer by layer: predict, be
// told the scalars one channel at a time, learn from the errors. One object a block, one thread.
#pragma once

#include <functional>
#include <vector>

#include "codec/linear/linear_model.h"
#include "codec/linear/plain_floats.h"
#include "codec/linear/token_scale.h"

namespace kvstrata::codec {

/// Where a scalar is expected: mu, and sigma = 2^(sigma_class / 4).
struct Guess {
  float mu;
  int sigma_class;
};

/// Given the guesses for a channel's tokens, writes the scalars' patterns.
using CodeChannel =
    std::function<void(const LayerOrder::Channel& channel, std::span<const Guess> guesses,
                       std::span<std::uint32_t> patterns)>;

class LinearPass {
 public:
  LinearPass(const LinearModel& model, std::uint32_t tokens, std::uint32_t first_position);

  /// The next layer, from 0 on.
  void layer(const CodeChannel& code);
  /// Of the last layer, per token: how well it was predicted.
  const std::vector<int>& layer_steps() const { return layer_steps_; }

 private:
  using Channels = std::vector<std::vector<float>>;  ///< [channel][token]

  void predict(const LinearLayer& layer);
  void code_panel(const LinearLayer& layer, std::size_t first, const CodeChannel& code);
  std::size_t code_pair(const LinearLayer& layer, std::size_t channel, const CodeChannel& code);
  std::size_t code_single(const LinearLayer& layer, std::size_t channel, const CodeChannel& code);
  void learn_in_panel(const LinearLayer& layer, std::size_t channel, std::size_t panel);
  void learn_from_panel(const LinearLayer& layer, std::size_t first, std::size_t end);
  void keep_input(const LinearLayer& layer, std::size_t channel, std::size_t token, float value);
  void code_guesses(const LayerOrder::Channel& channel, int sigma_class,
                    const std::vector<float>& expected, const CodeChannel& code);

  const LinearModel& model_;
  PlainFloats plain_;
  LayerOrder order_;
  std::size_t tokens_;
  std::uint32_t first_position_;
  std::size_t layer_ = 0;
  Channels expected_, errors_;
  std::vector<TokenScale> scales_;
  std::vector<int> layer_steps_;
  std::vector<std::vector<std::int8_t>> inputs_;  ///< of each layer so far: [token · channels + c]
  std::vector<Guess> guesses_;
  std::vector<std::uint32_t> patterns_;
  std::vector<float> values_;
};

/// The number a pattern of a floating dtype stands for; all-ones keys go on as if they were
/// numbers.
float value_of(const ScalarFormat& format, std::uint32_t pattern);

}  // namespace kvstrata::codec
