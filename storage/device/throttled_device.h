// A ThrottledDevice is another Device made slow: every attempt completes only after a latency, and
// all of them together move at most so many bytes a second, by a Clock.
//
// Threads: as Device; clones share the rate, as heads of one drive. Lifetime: it owns the inner
// device; the Clock outlives both.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "storage/device/device_decorator.h"

namespace kvstrata::storage {

struct ThrottleOptions {
  std::uint64_t bytes_per_second = 0;  ///< reads and writes together; 0: no limit
  Milliseconds latency{0};             ///< of each attempt, a data_sync too
};

class ThrottledDevice final : public DeviceDecorator {
 public:
  ThrottledDevice(std::unique_ptr<Device> inner, const ThrottleOptions& options,
                  const Clock& clock = Clock::system());

  std::string name() const override { return "throttled(" + inner().name() + ")"; }
  Result<std::unique_ptr<Device>> clone() const override;

 protected:
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override;
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

 private:
  /// The drive that clones have in common.
  class Drive;
  struct Slow {
    std::uint64_t user_data = 0;
    MonotonicTime due;
  };
  struct Held {
    RawCompletion completion;
    MonotonicTime due;
  };

  ThrottledDevice(std::unique_ptr<Device> inner, std::shared_ptr<Drive> drive);
  void let_go(std::vector<RawCompletion>& ended);
  Milliseconds nap(Milliseconds left) const;

  std::shared_ptr<Drive> drive_;
  std::vector<Slow> running_;  // in the inner device
  std::vector<Held> held_;     // ended there, not due yet
  std::vector<RawCompletion> scratch_;
};

}  // namespace kvstrata::storage
