// Interest remembers which blocks reclaim should keep: touched ones (a hint, forgotten in time) and
// held ones (counted promises).
//
// Threads: safe from any. Memory is bounded: touches are 64-bit fingerprints in two generations,
// the older of which is dropped when the younger is full; a collision only keeps a block too long.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "include/impl/block_map.h"
#include "kvstrata/keys.h"

namespace kvstrata::storage {

class Interest {
 public:
  static constexpr std::size_t touches_max = std::size_t{1} << 18;  ///< of a generation
  static constexpr std::size_t fresh_max = std::size_t{1} << 16;
  static constexpr std::size_t holds_max = std::size_t{1} << 20;

  void touch(std::span<const BlockKey> keys);
  bool touched(const BlockKey& key) const;
  /// A reinserted block has had its reward.
  void forget_touch(const BlockKey& key);
  /// Touched keys whose ancestors were not touched yet on their behalf; empties the list.
  std::vector<BlockKey> take_fresh();

  /// Beyond holds_max different keys a hold is not taken.
  void hold(std::span<const BlockKey> keys);
  void unhold(std::span<const BlockKey> keys);
  bool held(const BlockKey& key) const;

 private:
  mutable std::mutex mutex_;
  boost::unordered_flat_set<std::uint64_t> young_, old_;
  std::vector<BlockKey> fresh_;
  BlockMap<std::uint64_t> holds_;
};

}  // namespace kvstrata::storage
