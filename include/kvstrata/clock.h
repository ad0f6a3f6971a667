// Clock: the only source of time. Deadlines, leases and rates use monotonic time; wall-clock time
// is for people and for TTLs that outlive a restart.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace kvstrata {

using Milliseconds = std::chrono::milliseconds;
using MonotonicTime = std::chrono::steady_clock::time_point;

/// A Clock tells the time. Implementations are safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() const = 0;
  virtual std::uint64_t unix_ms() const = 0;  ///< wall clock, milliseconds since 1970 UTC

  static const Clock& system();  ///< the machine's clocks
};

/// A FakeClock moves only when told to, for tests.
class FakeClock final : public Clock {
 public:
  MonotonicTime now() const override { return MonotonicTime(Milliseconds(monotonic_ms_.load())); }
  std::uint64_t unix_ms() const override { return unix_ms_.load(); }

  void advance(Milliseconds by) {
    monotonic_ms_ += by.count();
    unix_ms_ += static_cast<std::uint64_t>(by.count());
  }
  void set_unix_ms(std::uint64_t ms) { unix_ms_ = ms; }

 private:
  std::atomic<std::int64_t> monotonic_ms_{1'000'000};
  std::atomic<std::uint64_t> unix_ms_{1'800'000'000'000};
};

}  // namespace kvstrata
