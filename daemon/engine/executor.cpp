#include "daemon/engine/executor.h"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace kvstrata::daemon {

namespace {

class ThreadPool final : public WorkerPool {
 public:
  ThreadPool(std::size_t threads, const char* name) : pool_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      boost::asio::post(pool_, [name] { pthread_setname_np(pthread_self(), name); });
    }
  }
  ~ThreadPool() override { pool_.join(); }

  void join() override { pool_.join(); }

  void post(std::function<void()> work) override { boost::asio::post(pool_, std::move(work)); }

 private:
  boost::asio::thread_pool pool_;
};

}  // namespace

std::unique_ptr<WorkerPool> make_worker_pool(std::size_t threads, const char* name) {
  return std::make_unique<ThreadPool>(threads, name);
}

}  // namespace kvstrata::daemon
