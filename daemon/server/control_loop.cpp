#include "daemon/server/control_loop.h"

#include <csignal>

#include "daemon/server/control_loop_impl.h"

namespace kvstrata::daemon {

namespace {

asio::awaitable<void> repeat(asio::io_context& io, Milliseconds period,
                             std::function<void()> work) {
  asio::steady_timer timer(io);
  while (true) {
    Failure failure;
    timer.expires_after(period);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, failure));
    if (failure) co_return;
    work();
  }
}

asio::awaitable<void> run_later(asio::io_context& io, Milliseconds delay,
                                std::function<void()> work) {
  asio::steady_timer timer(io, delay);
  Failure failure;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, failure));
  if (!failure) work();
}

asio::awaitable<void> await_signals(std::unique_ptr<asio::signal_set> signals,
                                    std::function<void()> handler) {
  while (true) {
    Failure failure;
    co_await signals->async_wait(asio::redirect_error(asio::use_awaitable, failure));
    if (failure) co_return;
    handler();
  }
}

}  // namespace

ControlLoop::ControlLoop() : impl_(std::make_unique<Impl>()) {}
ControlLoop::~ControlLoop() = default;

Executor& ControlLoop::executor() {
  return impl_->executor;
}
void ControlLoop::run() {
  impl_->io.run();
}
void ControlLoop::stop() {
  impl_->io.stop();
}

void ControlLoop::on_termination(std::function<void()> handler) {
  // Here and not in the coroutine, which starts only with run().
  auto signals = std::make_unique<asio::signal_set>(impl_->io, SIGTERM, SIGINT);
  asio::co_spawn(impl_->io, await_signals(std::move(signals), std::move(handler)), asio::detached);
}

void ControlLoop::every(Milliseconds period, std::function<void()> work) {
  asio::co_spawn(impl_->io, repeat(impl_->io, period, std::move(work)), asio::detached);
}

void ControlLoop::after(Milliseconds delay, std::function<void()> work) {
  asio::co_spawn(impl_->io, run_later(impl_->io, delay, std::move(work)), asio::detached);
}

}  // namespace kvstrata::daemon
