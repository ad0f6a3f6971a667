// A Connection moves the bytes of one Session: it reads when the session may take more, writes what
// is queued, and ends clients that stop in the middle.
//
// Control thread. Lifetime: shared by its coroutine and the server until closed.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "daemon/server/control_loop_impl.h"
#include "daemon/server/message_reader.h"
#include "daemon/server/session.h"

namespace kvstrata::daemon {

class Connection final : public Transport, public std::enable_shared_from_this<Connection> {
 public:
  /// Takes a connected, non-blocking socket. `on_closed` runs once, from within close().
  Connection(const std::shared_ptr<Context>& context, ControlLoop::Impl& loop, ConnectionId id,
             UniqueFd socket, Peer peer, std::function<void(ConnectionId)> on_closed);

  /// Begins to read; call once.
  void start();
  /// Ends the connection at once; what is queued is lost. The reason goes to the log if there is
  /// one.
  void close(std::string_view reason);
  /// Closes the connection if the client kept it waiting too long.
  void check(MonotonicTime now);

  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  /// Nothing in flight and nothing to send.
  bool is_quiet() const { return session_->in_flight() == 0 && session_->out().empty(); }

  void want_flush() override;
  void want_read() override { resume_.wake(); }

 private:
  asio::awaitable<void> read_loop();
  asio::awaitable<void> step();
  asio::awaitable<void> admit_body();
  asio::awaitable<void> receive();
  asio::awaitable<void> wait_readable();
  asio::awaitable<void> discard_rest();
  void dispatch_message();
  void flush();
  void wait_writable();
  void all_sent();

  std::shared_ptr<Context> shared_context_;
  Context& context_;
  ControlLoop::Impl& loop_;
  asio::posix::stream_descriptor socket_;
  std::shared_ptr<Session> session_;
  std::function<void(ConnectionId)> on_closed_;
  MessageReader reader_;
  RequestPtr arriving_;  ///< its payload is being read
  InlineMemory::ClaimPtr claim_;
  Wakeup resume_;
  MonotonicTime accepted_at_;
  MonotonicTime read_wait_since_;
  MonotonicTime write_progress_at_;
  MonotonicTime lingering_since_;
  std::uint64_t sent_bytes_seen_ = 0;
  int reads_in_turn_ = 0;
  bool is_open_ = true;
  bool drained_ = false;  ///< the last read took all there was
  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  bool was_blocked_ = false;  ///< the last flush left something to send
  bool flush_posted_ = false;
  bool lingering_ = false;  ///< all is sent; the client may read it before the end
};

}  // namespace kvstrata::daemon
