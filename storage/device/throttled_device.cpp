#include "storage/device/throttled_device.h"

#include <algorithm>
#include <thread>

namespace kvstrata::storage {

namespace {

// A fake clock may move at any moment, so nobody sleeps longer than this at a time.
constexpr Milliseconds nap_max{2};

}  // namespace

class ThrottledDevice::Drive {
 public:
  Drive(const ThrottleOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  /// When a transfer of `bytes` that begins now would be done.
  MonotonicTime schedule(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    free_at_ = std::max(free_at_, clock_.now());
    if (options_.bytes_per_second > 0) {
      const double seconds =
          static_cast<double>(bytes) / static_cast<double>(options_.bytes_per_second);
      free_at_ += std::chrono::ceil<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(seconds));
    }
    return free_at_ + options_.latency;
  }

  MonotonicTime now() const { return clock_.now(); }

 private:
  const ThrottleOptions options_;
  const Clock& clock_;
  std::mutex mutex_;
  MonotonicTime free_at_;
};

ThrottledDevice::ThrottledDevice(std::unique_ptr<Device> inner, const ThrottleOptions& options,
                                 const Clock& clock)
    : ThrottledDevice(std::move(inner), std::make_shared<Drive>(options, clock)) {}

ThrottledDevice::ThrottledDevice(std::unique_ptr<Device> inner, std::shared_ptr<Drive> drive)
    : DeviceDecorator(std::move(inner)), drive_(std::move(drive)) {}

Result<std::unique_ptr<Device>> ThrottledDevice::clone() const {
  KV_ASSIGN(auto inner_clone, inner().clone());
  return std::unique_ptr<Device>(new ThrottledDevice(std::move(inner_clone), drive_));
}

Status ThrottledDevice::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  KV_TRY(DeviceDecorator::submit_impl(request, user_data));
  const bool moves = request.operation != IoOperation::data_sync;
  running_.push_back({.user_data = user_data, .due = drive_->schedule(moves ? request.bytes : 0)});
  return {};
}

Result<std::size_t> ThrottledDevice::wait_impl(std::vector<RawCompletion>& ended,
                                               std::size_t minimum, Milliseconds timeout) {
  const std::size_t before = ended.size();
  const MonotonicTime deadline = Clock::system().now() + (minimum == 0 ? Milliseconds(0) : timeout);
  for (;;) {
    const auto left = std::max(std::chrono::ceil<Milliseconds>(deadline - Clock::system().now()),
                               Milliseconds(0));
    scratch_.clear();
    // Waits in the inner device while that is all there is to wait for.
    const bool only_inner = held_.empty() && inner_attempts() > 0;
    const Result<std::size_t> inner_count =
        DeviceDecorator::wait_impl(scratch_, only_inner ? std::min<std::size_t>(minimum, 1) : 0,
                                   only_inner ? left : Milliseconds(0));
    for (const RawCompletion& completion : scratch_) {
      const auto found = std::find_if(running_.begin(), running_.end(), [&](const Slow& slow) {
        return slow.user_data == completion.user_data;
      });
      held_.push_back({.completion = completion,
                       .due = found == running_.end() ? MonotonicTime() : found->due});
      if (found != running_.end()) {
        running_.erase(found);
      }
    }
    let_go(ended);
    const std::size_t count = ended.size() - before;
    if (count >= minimum || left == Milliseconds(0) || (held_.empty() && inner_attempts() == 0)) {
      return count;
    }
    if (!inner_count) {
      return inner_count.error();
    }
    if (!held_.empty()) {
      std::this_thread::sleep_for(nap(left));
    }
  }
}

void ThrottledDevice::let_go(std::vector<RawCompletion>& ended) {
  const MonotonicTime now = drive_->now();
  std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.due < b.due; });
  const auto rest =
      std::find_if(held_.begin(), held_.end(), [now](const Held& held) { return held.due > now; });
  std::for_each(held_.begin(), rest, [&](const Held& held) { ended.push_back(held.completion); });
  held_.erase(held_.begin(), rest);
}

Milliseconds ThrottledDevice::nap(Milliseconds left) const {
  const auto until_due = std::chrono::ceil<Milliseconds>(held_.front().due - drive_->now());
  return std::clamp(std::min(left, until_due), Milliseconds(1), nap_max);
}

}  // namespace kvstrata::storage
