// LinearParameters: a linear model as frames name it and stores keep it. The bytes are those of
// doc/linear-format.md.
#pragma once

#include <memory>
#include <span>

#include "codec/codec.h"
#include "codec/linear/linear_model.h"

namespace kvstrata::codec {

class LinearParameters final : public CodecParameters {
 public:
  /// Fits on blocks of `shape`: see fit_linear(). `invalid_argument` also if their numbers give no
  /// model that could be stored.
  static Result<std::shared_ptr<const LinearParameters>> fit(
      const BlockShape& shape, std::span<const PlacedPayload> payloads,
      const LinearFitOptions& options);
  /// Reads what serialize() wrote; `corrupt` for anything else, `unsupported` for later versions.
  static Result<std::shared_ptr<const LinearParameters>> parse(ByteView bytes);

  explicit LinearParameters(LinearModel model);

  CodecId codec() const override { return CodecId::linear; }
  ByteVector serialize() const override;
  std::uint64_t content_hash() const override { return content_hash_; }

  const LinearModel& model() const { return model_; }

 private:
  LinearModel model_;
  std::uint64_t content_hash_ = 0;
};

/// True for blocks of any number of tokens in any layout that have the model's layers and channels.
bool serves(const LinearModel& model, const BlockShape& shape);

}  // namespace kvstrata::codec
