// Core: what all parts of the engine share. One per engine; control thread only, except where a
// member says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/engine/engine.h"

namespace kvstrata::daemon {

/// Events since the engine was created. Names and meanings: doc/metrics.md.
struct Counters {
  std::uint64_t lookups = 0, lookup_blocks = 0;
  std::uint64_t hit_blocks_host = 0, hit_blocks_disk = 0, miss_blocks = 0;
  std::uint64_t load_blocks_host = 0, load_blocks_disk = 0, load_bytes_host = 0,
                load_bytes_disk = 0, load_failures = 0;
  std::uint64_t put_blocks = 0, put_bytes = 0, put_exists = 0, put_conflicts = 0, put_refused = 0;
  std::uint64_t encoded_blocks = 0, encoded_raw_bytes = 0, encoded_frame_bytes = 0,
                encoded_raw_for_lag = 0, encoded_linear_blocks = 0, durable_blocks = 0,
                durable_failures = 0;
  std::uint64_t fits = 0, fits_adopted = 0, fits_failed = 0, gains_lost = 0;
  std::uint64_t admission_declined_blocks = 0, admission_later_blocks = 0;
  std::uint64_t evicted_blocks = 0, evicted_bytes = 0, evicted_unadmitted_blocks = 0;
  std::uint64_t removed_blocks = 0;
  std::uint64_t corrupt_blocks = 0, epoch_bumps = 0, expired_reservations = 0;
};

struct Core {
  Core(EngineOptions engine_options, Executor& control_executor)
      : options(std::move(engine_options)), control(control_executor), clock(*options.clock) {}

  EngineOptions options;
  Executor& control;
  const Clock& clock;
  Counters counters;
  std::function<void(const Event&)> listener;
  std::unique_ptr<hostmem::HostArena> arena;
  std::unique_ptr<storage::Store> store;
  std::unique_ptr<WorkerPool> workers;   ///< copies, look-ups, decoding: somebody waits for these
  std::unique_ptr<WorkerPool> encoders;  ///< background
  std::unique_ptr<WorkerPool> fitters;   ///< one thread, at the lowest priority, for minutes

  /// Runs `work` on the control thread unless the engine is gone by then. Any thread.
  void to_control(std::function<void()> work) {
    control.post([alive = alive_, work = std::move(work)] {
      if (*alive) work();
    });
  }

  /// Runs `work` on a worker and `then(result)` on the control thread.
  template <typename Work, typename Then>
  void on_worker(Work work, Then then) {
    workers->post([this, work = std::move(work), then = std::move(then)]() mutable {
      auto result = std::make_shared<decltype(work())>(work());
      to_control([result, then = std::move(then)]() mutable { then(std::move(*result)); });
    });
  }

  void emit(const Event& event) const {
    if (listener) listener(event);
  }

  /// Posts that have not run yet must not touch what comes after this.
  void disconnect() { *alive_ = false; }

 private:
  /// Read and written on the control thread; posts hold it, since they may outlive the engine.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kvstrata::daemon
