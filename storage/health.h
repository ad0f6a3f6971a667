// Health decides whether the store takes appends: after a failure it refuses them for a while,
// longer after each failure in a row, then lets one look at the disk (storage/readmission.h) and,
// if that went well, appends through.
//
// Threads: safe from any. Time is monotonic and comes from the Clock.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "kvstrata/clock.h"
#include "kvstrata/result.h"

namespace kvstrata::storage {

class Health {
 public:
  static constexpr Milliseconds retry_delay_min{1'000};
  static constexpr Milliseconds retry_delay_max{30'000};

  explicit Health(const Clock& clock) : clock_(clock) {}

  /// Writing failed; further attempts are refused for the present delay.
  void failed(const Error& error);
  void succeeded();
  /// Whether whoever asks is to look if the disk may be trusted again: true once after each delay.
  bool take_probe();
  /// Why an append is refused right now; nothing if it may be tried.
  std::optional<Error> refusal() const;
  /// The reason of the last failure, until a success; empty: healthy.
  std::string degraded() const;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  MonotonicTime retry_at_{};
  Milliseconds delay_{0};
  bool probe_due_ = false;
};

}  // namespace kvstrata::storage
