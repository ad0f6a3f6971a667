#include "storage/interest.h"

namespace kvstrata::storage {

namespace {

std::uint64_t fingerprint(const BlockKey& key) {
  return SeededBlockHash()(key);
}

}  // namespace

void Interest::touch(std::span<const BlockKey> keys) {
  const std::lock_guard lock(mutex_);
  for (const BlockKey& key : keys) {
    const bool is_new = young_.insert(fingerprint(key)).second;
    if (is_new && fresh_.size() < fresh_max) fresh_.push_back(key);
    if (young_.size() >= touches_max) {
      old_ = std::move(young_);
      young_.clear();
    }
  }
}

bool Interest::touched(const BlockKey& key) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t print = fingerprint(key);
  return young_.contains(print) || old_.contains(print);
}

void Interest::forget_touch(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t print = fingerprint(key);
  young_.erase(print);
  old_.erase(print);
}

std::vector<BlockKey> Interest::take_fresh() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

void Interest::hold(std::span<const BlockKey> keys) {
  const std::lock_guard lock(mutex_);
  for (const BlockKey& key : keys) {
    if (holds_.size() < holds_max || holds_.contains(key)) ++holds_[key];
  }
}

void Interest::unhold(std::span<const BlockKey> keys) {
  const std::lock_guard lock(mutex_);
  for (const BlockKey& key : keys) {
    const auto found = holds_.find(key);
    if (found != holds_.end() && --found->second == 0) holds_.erase(found);
  }
}

bool Interest::held(const BlockKey& key) const {
  const std::lock_guard lock(mutex_);
  return holds_.contains(key);
}

}  // namespace kvstrata::storage
