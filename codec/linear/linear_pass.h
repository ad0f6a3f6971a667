// LinearPass: what encoder and decoder of the linear codec do alike, layer by layer: predict, be
// told the scalars one channel at a time, learn from the errors. One object a block, one thread.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "codec/linear/linear_kernels.h"
#include "codec/linear/linear_model.h"
#include "codec/linear/plain_floats.h"
#include "codec/linear/token_scale.h"

namespace kvstrata::codec {

/// Given the guesses for a channel's tokens, writes the scalars' patterns; false ends the layer.
using CodeChannel = std::function<bool(const LayerOrder::Channel& channel, const Guesses& guesses,
                                       std::span<std::uint32_t> patterns)>;

class LinearPass {
 public:
  /// For a block of `tokens`. The model outlives the pass.
  LinearPass(const LinearModel& model, std::uint32_t tokens, std::uint32_t first_position,
             SimdLevel level = best_simd_level());

  /// The next layer, from 0 on. False if `code` ended it; then there is no next.
  bool layer(const CodeChannel& code);
  std::size_t channels() const { return order_.size(); }
  /// Of the last layer, per token: how well it was predicted.
  const std::vector<int>& layer_steps() const { return layer_steps_; }

 private:
  using Inputs = std::vector<std::int32_t>;  ///< packed, of one layer

  float* expected(std::size_t channel) { return expected_.data() + channel * row_; }
  float* error(std::size_t in_panel) { return errors_.data() + in_panel * row_; }
  void set_turns(std::uint32_t first_position);
  const LinearKernels& kernels_for_products() const;
  void predict(const LinearLayer& layer);
  bool code_panel(const LinearLayer& layer, std::size_t first, std::size_t end,
                  const CodeChannel& code);
  bool code_single(const LinearLayer& layer, std::size_t channel, std::size_t panel,
                   const CodeChannel& code);
  bool code_pair(const LinearLayer& layer, std::size_t channel, std::size_t panel,
                 const CodeChannel& code);
  bool code_row(std::size_t channel, int sigma_class, const float* row, std::uint32_t* patterns,
                const CodeChannel& code);
  struct Range {
    std::size_t first, end;  ///< channels
  };
  void learn_in_panel(const LinearLayer& layer, std::size_t panel, Range from, Range to);
  void learn_from_panel(const LinearLayer& layer, std::size_t first, std::size_t end);
  Known known(const LinearLayer& layer, std::size_t channel, std::size_t panel);

  const LinearModel& model_;
  PlainFloats plain_;
  const LinearKernels& kernels_;
  const ScalarFormat format_;
  LayerOrder order_;
  std::size_t tokens_, row_;  ///< of the block; of a row
  std::size_t layer_ = 0;
  std::vector<float> cosines_, sines_;   ///< [pair][row]
  std::vector<float> expected_;          ///< [channel][row], in sigmas
  std::vector<float> errors_;            ///< [channel in its panel][row], in sigmas
  std::vector<float> turned_;            ///< [2][row]
  std::vector<std::uint32_t> patterns_;  ///< [2][row]
  std::vector<float> mu_;
  std::vector<std::int32_t> classes_;
  TokenScales scales_;
  std::vector<int> layer_steps_;
  std::deque<Inputs> inputs_;  ///< of the layers so far that are still needed, the last first
};

}  // namespace kvstrata::codec
