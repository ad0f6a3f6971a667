// An EvictionPolicy decides which host block goes first. It sees blocks come, be wanted and go, and
// names victims; it owns no memory. Control thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "kvstrata/keys.h"

namespace kvstrata::hostmem {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual void inserted(const BlockKey& key, std::uint64_t bytes) = 0;
  /// `prefix` was wanted, in order from its head. The tail counts as used before the head, so that
  /// a prefix is evicted from its end.
  virtual void touched(std::span<const BlockKey> prefix) = 0;
  virtual void removed(const BlockKey& key) = 0;

  /// The first block, in order of eviction, that `may_evict` accepts (leased, dirty and busy blocks
  /// are refused by it). Looks at no more than `look_at_most` blocks.
  virtual std::optional<BlockKey> victim(const std::function<bool(const BlockKey&)>& may_evict,
                                         std::size_t look_at_most) = 0;
  virtual std::size_t size() const = 0;
};

/// Least recently used, tail of a prefix before its head.
std::unique_ptr<EvictionPolicy> make_lru_policy();

}  // namespace kvstrata::hostmem
