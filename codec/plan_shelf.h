// A PlanShelf keeps the plan that was used last of each sub-stream of a TableSet. Blocks of a
// namespace have the same number of tokens, and so the same plans.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace kvstrata::codec {

struct StaticPlan;

class PlanShelf {
 public:
  explicit PlanShelf(std::size_t substreams) : slots_(substreams) {}

  /// nullptr if it is not there.
  std::shared_ptr<const StaticPlan> find(std::uint32_t substream, std::uint32_t tokens) const {
    const std::scoped_lock lock(mutex_);
    const Slot& slot = slots_.at(substream);
    return slot.tokens == tokens ? slot.plan : nullptr;
  }
  void keep(std::uint32_t substream, std::uint32_t tokens, std::shared_ptr<const StaticPlan> plan) {
    const std::scoped_lock lock(mutex_);
    slots_.at(substream) = {tokens, std::move(plan)};
  }

 private:
  struct Slot {
    std::uint32_t tokens = 0;
    std::shared_ptr<const StaticPlan> plan;
  };
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace kvstrata::codec
