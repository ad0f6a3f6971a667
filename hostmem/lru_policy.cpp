#include <memory>

#include "hostmem/eviction_policy.h"
#include "include/impl/block_map.h"

namespace kvstrata::hostmem {

namespace {

/// A member of a ring.
struct Link {
  Link* older = this;
  Link* newer = this;
  BlockKey key;  ///< of no meaning in the ring's own member

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void unlink() {
    older->newer = newer;
    newer->older = older;
    older = newer = this;
  }
  void insert_before(Link& other) {
    older = other.older;
    newer = &other;
    older->newer = this;
    other.older = this;
  }
};

class LruPolicy final : public EvictionPolicy {
 public:
  void inserted(const BlockKey& key, std::uint64_t /*bytes*/) override {
    const auto [at, is_new] = blocks_.try_emplace(key, std::make_unique<Link>());
    KV_CHECK(is_new, "a block is inserted once");
    at->second->key = key;
    at->second->insert_before(ring_);
  }

  void touched(std::span<const BlockKey> prefix) override {
    for (std::size_t i = prefix.size(); i-- > 0;) {
      const auto found = blocks_.find(prefix[i]);
      if (found == blocks_.end()) continue;  // on disk only
      found->second->unlink();
      found->second->insert_before(ring_);
    }
  }

  void removed(const BlockKey& key) override {
    const auto found = blocks_.find(key);
    KV_CHECK(found != blocks_.end(), "a block is removed once");
    found->second->unlink();
    blocks_.erase(found);
  }

  std::optional<BlockKey> victim(const std::function<bool(const BlockKey&)>& may_evict,
                                 std::size_t look_at_most) override {
    for (const Link* at = ring_.newer; at != &ring_ && look_at_most > 0; at = at->newer) {
      if (may_evict(at->key)) return at->key;
      --look_at_most;
    }
    return std::nullopt;
  }

  std::size_t size() const override { return blocks_.size(); }

 private:
  Link ring_;  ///< its `newer` is the least recently used block, its `older` the most
  BlockMap<std::unique_ptr<Link>> blocks_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru_policy() {
  return std::make_unique<LruPolicy>();
}

}  // namespace kvstrata::hostmem
