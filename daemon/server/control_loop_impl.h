// The inside of a ControlLoop, for the few .cpp files that wait for sockets and timers.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes asio's recycling allocator of coroutine frames for a mistake.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/server/control_loop.h"

namespace kvstrata::daemon {

namespace asio = boost::asio;
using Failure = boost::system::error_code;

class LoopExecutor final : public Executor {
 public:
  explicit LoopExecutor(asio::io_context& io) : io_(io) {}
  void post(std::function<void()> work) override { asio::post(io_, std::move(work)); }

 private:
  asio::io_context& io_;
};

struct ControlLoop::Impl {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  LoopExecutor executor{io};
};

/// Lets a coroutine wait until somebody says so. Control thread only.
class Wakeup {
 public:
  explicit Wakeup(asio::io_context& io) : timer_(io) {}

  asio::awaitable<void> wait() {
    Failure ignored;
    timer_.expires_at(asio::steady_timer::time_point::max());
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  void wake() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

}  // namespace kvstrata::daemon
