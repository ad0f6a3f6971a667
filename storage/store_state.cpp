#include "storage/store_state.h"

#include <algorithm>

namespace kvstrata::storage {

void DroppedKeys::set_callback(Callback callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
}

void DroppedKeys::add(std::span<const BlockKey> keys) {
  const std::lock_guard lock(mutex_);
  if (callback_) keys_.insert(keys_.end(), keys.begin(), keys.end());
}

void DroppedKeys::deliver() {
  Callback callback;
  std::vector<BlockKey> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = std::exchange(keys_, {});
    callback = callback_;
  }
  if (callback && !keys.empty()) callback(keys);
}

void WriterErrands::add_expired(const BlockKey& key) {
  const std::lock_guard lock(mutex_);
  if (expired_.size() < expired_max) expired_.push_back(key);
}

void WriterErrands::add_lost(SegmentId segment) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(lost_, segment) == lost_.end()) lost_.push_back(segment);
}

std::vector<BlockKey> WriterErrands::take_expired() {
  const std::lock_guard lock(mutex_);
  return std::exchange(expired_, {});
}

void StoreState::note_index_error(const Error& error) const {
  if (error.kind() == ErrorKind::corrupt) mark_index_broken(directory);
}

std::vector<SegmentId> WriterErrands::take_lost() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lost_, {});
}

}  // namespace kvstrata::storage
