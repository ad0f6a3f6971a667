// A Forward is the pass over one block: layer by layer it says what K and V are expected, and goes
// on once it is told what they are. doc/predictor-arithmetic.md, step by step.
//
// Threads: one. The model and the sequence outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "predictor/attention.h"
#include "predictor/model.h"
#include "predictor/products.h"

namespace kvstrata::predictor {

/// The exact K and V of a sequence's blocks so far, all layers.
using KvSequence = std::vector<SequenceLayer>;
KvSequence make_sequence(const Model& model);

/// What a layer's K and V are expected to be: binary32[tokens][kv_heads · head_dim], K not turned.
struct Expected {
  std::vector<float> k, v;
  std::uint64_t digest = 0;  ///< of what the projection read: the guard of the layer
};

/// G, for the errors of a layer: rows are hidden channels, columns errors in coding order.
struct Correction {
  TileView<std::int16_t> matrix;
  std::span<const float> errors;  ///< binary32[tokens][columns]
};

class Forward {
 public:
  /// `tokens`, a multiple of 64, follow those of `sequence`; all are below the vocabulary, and
  /// their positions below the model's. All levels of machine code give the same.
  Forward(const Model& model, KvSequence& sequence, std::span<const std::uint32_t> tokens,
          codec::SimdLevel level = codec::best_simd_level());

  /// Of the next layer, the first one first.
  Expected expect();
  /// Tells what expect()'s layer has: K (turned, as the cache has it) and V, in the same order.
  /// Without a correction x stays as it is. After the last layer the block is done.
  void know(std::span<const float> k, std::span<const float> v,
            const std::optional<Correction>& correction = {});

  /// False once there was a NaN or an infinity: what it says from then on is of no use.
  bool finite() const { return finite_; }

 private:
  std::span<float> hidden(std::size_t token);  ///< of x
  CodeRows normed(std::span<const float> weight);
  void correct(const Correction& correction);
  void attend(const CodeRows& input);
  void run_mlp();
  std::uint64_t digest_of(const CodeRows& rows) const;
  /// binary32[tokens][rows of the matrix].
  std::vector<float> multiply(const CodeRows& input, const Weights& weights,
                              std::span<const float> bias) const;
  void add_to_x(const std::vector<float>& y);
  CodeRows quantised(std::span<const float> rows, std::uint32_t group, float top);
  std::vector<float> multiply_quantised(const std::vector<float>& rows, const Weights& weights);
  void norm_heads(std::vector<float>& rows, std::span<const float> weight);

  const Model& model_;
  const ModelConfig& config_;
  const ProductKernels& kernels_;
  KvSequence& sequence_;
  std::size_t tokens_;
  std::uint32_t first_position_;
  std::uint32_t layer_ = 0;
  std::vector<float> x_;
  std::optional<CodeRows> input_;  ///< of the layer's projections
  bool finite_ = true;
};

}  // namespace kvstrata::predictor
