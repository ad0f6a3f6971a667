// An Executor runs functions somewhere else: the control thread, or a pool of workers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace kvstrata::daemon {

/// post() may be called from any thread and never runs the function before it returns.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::function<void()> work) = 0;
};

/// Threads of its own.
class WorkerPool : public Executor {
 public:
  /// Runs what was posted, then ends the threads. What is posted later never runs.
  virtual void join() = 0;
};

/// lowest: they run when nobody else wants to.
enum class ThreadPriority { normal, lowest };

/// A pool of `threads` workers; the destructor joins.
std::unique_ptr<WorkerPool> make_worker_pool(std::size_t threads, const char* name,
                                             ThreadPriority priority = ThreadPriority::normal);

}  // namespace kvstrata::daemon
