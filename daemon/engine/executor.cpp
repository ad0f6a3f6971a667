#include "daemon/engine/executor.h"

#include <pthread.h>
#include <sys/resource.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace kvstrata::daemon {

namespace {

class ThreadPool final : public WorkerPool {
 public:
  ThreadPool(std::size_t threads, const char* name, ThreadPriority priority) : pool_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      boost::asio::post(pool_, [name, priority] {
        pthread_setname_np(pthread_self(), name);
        constexpr int nicest = 19;
        // Of this thread alone; where that is refused it runs like the others.
        if (priority == ThreadPriority::lowest) setpriority(PRIO_PROCESS, 0, nicest);
      });
    }
  }
  ~ThreadPool() override { pool_.join(); }

  void join() override { pool_.join(); }

  void post(std::function<void()> work) override { boost::asio::post(pool_, std::move(work)); }

 private:
  boost::asio::thread_pool pool_;
};

}  // namespace

std::unique_ptr<WorkerPool> make_worker_pool(std::size_t threads, const char* name,
                                             ThreadPriority priority) {
  return std::make_unique<ThreadPool>(threads, name, priority);
}

}  // namespace kvstrata::daemon
