#include "storage/health.h"

#include <algorithm>
#include <utility>

namespace kvstrata::storage {

void Health::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  const MonotonicTime now = clock_.now();
  // Many requests fail at once for one reason; they count as one failure.
  if (error_ && now < retry_at_) return;
  delay_ = std::clamp(2 * delay_, retry_delay_min, retry_delay_max);
  retry_at_ = now + delay_;
  error_ = error;
  probe_due_ = true;
}

void Health::succeeded() {
  const std::lock_guard lock(mutex_);
  error_.reset();
  delay_ = Milliseconds(0);
}

bool Health::take_probe() {
  const std::lock_guard lock(mutex_);
  if (!error_ || clock_.now() < retry_at_) return false;
  return std::exchange(probe_due_, false);
}

std::optional<Error> Health::refusal() const {
  const std::lock_guard lock(mutex_);
  if (!error_ || clock_.now() >= retry_at_) return std::nullopt;
  return error_->with_context("the disk tier takes no writes for the moment");
}

std::string Health::degraded() const {
  const std::lock_guard lock(mutex_);
  return error_ ? error_->message() : std::string();
}

}  // namespace kvstrata::storage
