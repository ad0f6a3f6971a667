// A ParameterFitter learns codec parameters from stored blocks in the background: better tables for
// the static codec as more blocks arrive or others than before, and models for the linear one. What
// it learns is used if it makes blocks that it was not fitted on shorter. Control thread only; fits
// run on core.fitters.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "daemon/engine/namespaces.h"
#include "daemon/engine/parameter_sample.h"

namespace kvstrata::daemon {

class ParameterFitter {
 public:
  ParameterFitter(Core& core, Namespaces& namespaces) : core_(core), namespaces_(namespaces) {}

  /// A block was coded with what there is, linear too or not.
  void block_coded(const BlockKey& key, std::uint64_t raw_bytes, std::uint64_t frame_bytes,
                   bool with_linear);
  /// A block became durable; may begin a fit.
  void block_stored(const BlockKey& key, std::uint64_t raw_bytes);
  /// A fit under way ends soon, without a result. Any thread.
  void cancel() { cancelled_ = true; }
  std::uint64_t open_fits() const { return open_fits_; }  ///< waiting or under way

 private:
  void start_what_is_due(const BlockKey& key, LayerGroupState& group);
  bool start_if_due(const BlockKey& key, LayerGroupState& group, codec::CodecId codec);
  void start(const BlockKey& key, LayerGroupState& group, codec::CodecId codec);
  void end(const BlockKey& key, codec::CodecId codec,
           const Result<std::optional<CodecTables::Stored>>& fitted);

  Core& core_;
  Namespaces& namespaces_;
  std::uint64_t open_fits_ = 0;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace kvstrata::daemon
