// A ControlLoop is the control thread's event loop: whoever calls run() becomes that thread.
//
// Threads: executor().post() and stop() from any thread, all else on the control thread (or before
// run()). Lifetime: outlives everything that posts to it.
#pragma once

#include <functional>
#include <memory>

#include "daemon/engine/executor.h"
#include "kvstrata/clock.h"

namespace kvstrata::daemon {

class ControlLoop {
 public:
  ControlLoop();
  ~ControlLoop();

  Executor& executor();
  /// Runs until stop().
  void run();
  void stop();

  /// Calls `handler` for every SIGTERM and SIGINT instead of what they usually do.
  void on_termination(std::function<void()> handler);
  /// Calls `work` every `period`.
  void every(Milliseconds period, std::function<void()> work);
  /// Calls `work` once, `delay` from now.
  void after(Milliseconds delay, std::function<void()> work);

  struct Impl;  ///< control_loop_impl.h, for the files that wait for sockets
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvstrata::daemon
