#include "daemon/server/inline_memory.h"

#include <algorithm>
#include <utility>

#include "kvstrata/check.h"

namespace kvstrata::daemon {

namespace {

constexpr std::uint64_t spare_bytes_max = 64_MiB;
constexpr std::uint64_t reuse_bytes_min = 64_KiB;  // malloc is as fast below

}  // namespace

std::shared_ptr<InlineMemory> InlineMemory::create(std::uint64_t bytes_max, Executor& control) {
  return std::shared_ptr<InlineMemory>(new InlineMemory(bytes_max, control));
}

bool InlineMemory::has_room(std::uint64_t bytes) const {
  return used_bytes_ == 0 || (bytes <= bytes_max_ && used_bytes_ <= bytes_max_ - bytes);
}

InlineMemory::ClaimPtr InlineMemory::claim(std::uint64_t bytes, std::function<void()> wake) {
  auto claim = std::make_shared<Claim>(bytes, std::move(wake));
  const std::lock_guard lock(mutex_);
  if (line_.empty() && has_room(bytes)) {
    used_bytes_ += bytes;
    claim->granted_ = true;
  } else {
    line_.push_back(claim);
  }
  return claim;
}

std::unique_ptr<ByteVector> InlineMemory::find_buffer(std::uint64_t bytes) {
  for (auto& spare : spare_) {
    if (spare->capacity() < bytes || spare->capacity() / 4 > bytes) continue;
    std::unique_ptr<ByteVector> buffer = std::move(spare);
    spare = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= buffer->capacity();
    return buffer;
  }
  return nullptr;
}

std::shared_ptr<ByteVector> InlineMemory::take(const ClaimPtr& claim) {
  KV_CHECK(claim->granted_, "inline memory taken before it was granted");
  const std::uint64_t bytes = claim->bytes_;
  std::unique_ptr<ByteVector> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (bytes >= reuse_bytes_min) buffer = find_buffer(bytes);
  }
  if (!buffer) {
    buffer = std::make_unique<ByteVector>();
    try {
      buffer->reserve(bytes);
    } catch (const std::bad_alloc&) {
      cancel(claim);
      return nullptr;
    }
  }
  if (buffer->size() > bytes) buffer->resize(bytes);
  claim->bytes_ = 0;
  const auto give = [self = shared_from_this(), bytes](ByteVector* done) {
    self->give_back(std::unique_ptr<ByteVector>(done), bytes);
  };
  return {buffer.release(), give};
}

void InlineMemory::cancel(const ClaimPtr& claim) {
  std::uint64_t unused = 0;
  {
    const std::lock_guard lock(mutex_);
    std::erase(line_, claim);
    if (claim->granted_) unused = std::exchange(claim->bytes_, 0);
  }
  give_back(nullptr, unused);
}

void InlineMemory::give_back(std::unique_ptr<ByteVector> buffer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
  if (buffer && buffer->capacity() >= reuse_bytes_min &&
      spare_bytes_ + buffer->capacity() <= spare_bytes_max) {
    spare_bytes_ += buffer->capacity();
    spare_.push_back(std::move(buffer));
  }
  post_grants();
}

/// With the mutex held.
void InlineMemory::post_grants() {
  if (line_.empty() || grants_posted_) return;
  grants_posted_ = true;
  control_.post([self = weak_from_this()] {
    if (const auto memory = self.lock()) memory->grant_waiting();
  });
}

void InlineMemory::grant_waiting() {
  std::vector<ClaimPtr> granted;
  {
    const std::lock_guard lock(mutex_);
    grants_posted_ = false;
    while (!line_.empty() && has_room(line_.front()->bytes_)) {
      used_bytes_ += line_.front()->bytes_;
      line_.front()->granted_ = true;
      granted.push_back(std::move(line_.front()));
      line_.pop_front();
    }
  }
  for (const ClaimPtr& claim : granted) claim->wake_();
}

std::uint64_t InlineMemory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

std::size_t InlineMemory::waiting() const {
  const std::lock_guard lock(mutex_);
  return line_.size();
}

}  // namespace kvstrata::daemon
