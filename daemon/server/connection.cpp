#include "daemon/server/connection.h"

#include <sys/socket.h>

#include <algorithm>

#include "daemon/server/log.h"
#include "daemon/server/sockets.h"

namespace kvstrata::daemon {

namespace {

using Wait = asio::posix::stream_descriptor;

constexpr int reads_in_turn_max = 64;  // then other connections get a turn
constexpr Milliseconds linger_max{1000};
constexpr Milliseconds refused_handshake_max{2000};

}  // namespace

Connection::Connection(const std::shared_ptr<Context>& context, ControlLoop::Impl& loop,
                       ConnectionId id, UniqueFd socket, Peer peer,
                       std::function<void(ConnectionId)> on_closed)
    : shared_context_(context),
      context_(*context),
      loop_(loop),
      socket_(loop.io, socket.release()),
      session_(std::make_shared<Session>(context, *this, id, std::move(peer))),
      on_closed_(std::move(on_closed)),
      resume_(loop.io),
      accepted_at_(context->clock.now()) {}

void Connection::start() {
  asio::co_spawn(
      loop_.io, [self = shared_from_this()] { return self->read_loop(); }, asio::detached);
}

asio::awaitable<void> Connection::read_loop() {
  const auto self = shared_from_this();
  while (is_open_) {
    if (session_->is_closing()) {
      co_await discard_rest();
    } else if (reader_.between_messages() && !session_->may_read()) {
      reads_in_turn_ = 0;
      co_await resume_.wait();
    } else {
      co_await step();
    }
  }
}

asio::awaitable<void> Connection::step() {
  switch (reader_.advance()) {
    case MessageReader::Step::bytes: co_await receive(); break;
    case MessageReader::Step::header:
      if (session_->admit_header(reader_.header())) reader_.accept_header();
      break;
    case MessageReader::Step::body: co_await admit_body(); break;
    case MessageReader::Step::message: dispatch_message(); break;
  }
}

asio::awaitable<void> Connection::admit_body() {
  const protocol::Header header = reader_.header();
  arriving_ = session_->admit_body(header, reader_.body());
  if (!arriving_ || header.payload_bytes == 0) {
    reader_.skip_payload();
    co_return;
  }
  claim_ = context_.inline_memory->claim(header.payload_bytes, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->resume_.wake();
  });
  while (is_open_ && !claim_->granted()) co_await resume_.wait();
  if (!is_open_) co_return;
  auto payload = context_.inline_memory->take(claim_);
  claim_.reset();
  if (payload) {
    reader_.store_payload(std::move(payload));
    co_return;
  }
  session_->answer_now(*std::exchange(arriving_, nullptr),
                       Error(ErrorKind::out_of_memory, "no memory for the payload"));
  reader_.skip_payload();
}

void Connection::dispatch_message() {
  if (!arriving_) return;
  arriving_->payload = reader_.take_payload();
  const RequestPtr request = std::exchange(arriving_, nullptr);
  session_->dispatch(request);
}

asio::awaitable<void> Connection::receive() {
  if (drained_) co_await wait_readable();
  if (!is_open_) co_return;
  if (++reads_in_turn_ > reads_in_turn_max) {
    reads_in_turn_ = 0;
    co_await asio::post(loop_.io, asio::use_awaitable);
    if (!is_open_) co_return;
  }
  const std::uint64_t before = reader_.received_bytes();
  const auto received = reader_.receive(socket_.native_handle());
  context_.counters.received_bytes += reader_.received_bytes() - before;
  drained_ = received != MessageReader::Receive::more;
  if (received == MessageReader::Receive::closed) close({});
}

asio::awaitable<void> Connection::wait_readable() {
  Failure failure;
  drained_ = false;
  reads_in_turn_ = 0;
  waiting_readable_ = true;
  read_wait_since_ = context_.clock.now();
  co_await socket_.async_wait(Wait::wait_read, asio::redirect_error(asio::use_awaitable, failure));
  waiting_readable_ = false;
  if (failure && is_open_) close(failure.message());
}

/// Reads on until the client closes, so that it gets the last reply: a socket closed with unread
/// bytes is reset, and what was sent may be lost with it.
asio::awaitable<void> Connection::discard_rest() {
  std::byte scratch[4096];
  while (is_open_) {
    const ssize_t bytes = recv(socket_.native_handle(), scratch, sizeof scratch, MSG_DONTWAIT);
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR)) {
      if (lingering_) co_return close({});
      co_await resume_.wait();  // its half is closed; ours is not sent yet
      continue;
    }
    if (bytes < 0) {
      co_await wait_readable();
    } else if (++reads_in_turn_ > reads_in_turn_max) {
      reads_in_turn_ = 0;
      co_await asio::post(loop_.io, asio::use_awaitable);
    }
  }
}

void Connection::want_flush() {
  if (!is_open_ || flush_posted_ || waiting_writable_) return;
  flush_posted_ = true;
  asio::post(loop_.io, [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void Connection::flush() {
  if (!is_open_ || waiting_writable_) return;
  OutQueue& out = session_->out();
  const bool could_read = session_->may_read();
  if (!was_blocked_) write_progress_at_ = context_.clock.now();
  const OutQueue::Flush flushed = out.flush(socket_.native_handle());
  if (out.sent_bytes() != sent_bytes_seen_) {
    context_.counters.sent_bytes += out.sent_bytes() - sent_bytes_seen_;
    sent_bytes_seen_ = out.sent_bytes();
    write_progress_at_ = context_.clock.now();
  }
  was_blocked_ = flushed == OutQueue::Flush::would_block;
  if (!could_read && session_->may_read()) resume_.wake();
  switch (flushed) {
    case OutQueue::Flush::empty: all_sent(); break;
    case OutQueue::Flush::more: want_flush(); break;
    case OutQueue::Flush::would_block: wait_writable(); break;
    case OutQueue::Flush::failed: close({}); break;
  }
}

void Connection::wait_writable() {
  if (!session_->renew_held_leases()) {
    return close("a lease ended while its blocks were being sent");
  }
  waiting_writable_ = true;
  socket_.async_wait(Wait::wait_write, [self = shared_from_this()](const Failure& failure) {
    self->waiting_writable_ = false;
    if (!failure) self->flush();
  });
}

void Connection::all_sent() {
  if (!session_->is_closing() || lingering_) return;
  lingering_ = true;
  lingering_since_ = context_.clock.now();
  shutdown(socket_.native_handle(), SHUT_WR);
  resume_.wake();
}

void Connection::check(MonotonicTime now) {
  const auto self = shared_from_this();
  const SessionLimits& limits = context_.limits;
  if (!is_open_) return;
  if (lingering_) {
    if (now - lingering_since_ > linger_max) close({});
    return;
  }
  const auto handshake = session_->is_refused() ? refused_handshake_max : limits.handshake;
  if (!session_->is_authenticated() && now - accepted_at_ > handshake) {
    ++context_.counters.handshake_timeouts;
    return close("said no HELLO in time");
  }
  if (waiting_readable_ && reader_.in_message() && now - read_wait_since_ > limits.stall) {
    ++context_.counters.stalled_writers;
    return close("stopped in the middle of a message");
  }
  if (!waiting_writable_) return;
  if (now - write_progress_at_ > limits.stall) {
    ++context_.counters.stalled_readers;
    return close("does not read its replies");
  }
  if (!session_->renew_held_leases()) close("a lease ended while its blocks were being sent");
}

void Connection::close(std::string_view reason) {
  if (!is_open_) return;
  const auto self = shared_from_this();
  is_open_ = false;
  if (!reason.empty()) {
    log::folded(LogLevel::warning, "connection-closed",
                "connection " + std::to_string(session_->id().value) + " (" +
                    session_->peer().name + ") closed: " + std::string(reason));
  }
  Failure ignored;
  socket_.close(ignored);
  if (claim_) context_.inline_memory->cancel(std::exchange(claim_, nullptr));
  (void)reader_.take_payload();
  arriving_.reset();
  session_->closed();
  resume_.wake();
  on_closed_(session_->id());
}

}  // namespace kvstrata::daemon
