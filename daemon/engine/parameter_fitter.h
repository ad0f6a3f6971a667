// A ParameterFitter learns codec parameters from stored blocks in the background: better tables for
// the static codec as more blocks arrive, and models for the linear one. What it learns is used if
// it makes blocks that it was not fitted on shorter. Control thread only; fits run on core.fitters.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/engine/namespaces.h"
#include "daemon/engine/parameter_sample.h"

namespace kvstrata::daemon {

class ParameterFitter {
 public:
  ParameterFitter(Core& core, Namespaces& namespaces) : core_(core), namespaces_(namespaces) {}

  /// A block became durable; may begin a fit.
  void block_stored(const BlockKey& key, std::uint64_t raw_bytes);
  /// A fit under way ends soon, without a result. Any thread.
  void cancel() { cancelled_ = true; }
  std::uint64_t open_fits() const { return open_fits_; }  ///< waiting or under way

 private:
  void start_what_is_due(const BlockKey& key, LayerGroupState& group);
  void start(const BlockKey& key, LayerGroupState& group, codec::CodecId codec);

  Core& core_;
  Namespaces& namespaces_;
  std::uint64_t open_fits_ = 0;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace kvstrata::daemon
