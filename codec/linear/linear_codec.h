// The linear codec of one block, a layer at a time from the lowest up: for each a chain of the cell
// coder, K and V together. One object a block, one thread; the model outlives it.
#pragma once

#include "codec/linear/linear_model.h"
#include "codec/linear/linear_pass.h"

namespace kvstrata::codec {

class LinearEncoder {
 public:
  /// For payloads of `shape`, whose layers and channels are the model's.
  LinearEncoder(const LinearModel& model, const BlockShape& shape, std::uint32_t first_position,
                SimdLevel level = best_simd_level());

  /// The chain of the next layer.
  ByteVector layer(ByteView payload);

 private:
  const LinearModel& model_;
  const BlockShape shape_;
  const SimdLevel level_;
  LinearPass pass_;
  std::uint32_t layer_ = 0;
};

class LinearDecoder {
 public:
  LinearDecoder(const LinearModel& model, const BlockShape& shape, std::uint32_t first_position,
                SimdLevel level = best_simd_level());

  /// The next layer, from its chain to its place in the payload. After an error: no further.
  Status layer(ByteView chain, MutableBytes payload);
  /// The next layer, whose scalars the payload holds already.
  void known_layer(ByteView payload);

 private:
  const LinearModel& model_;
  const BlockShape shape_;
  const SimdLevel level_;
  LinearPass pass_;
  std::uint32_t layer_ = 0;
};

}  // namespace kvstrata::codec
