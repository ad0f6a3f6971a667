#include "daemon/server/server.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "daemon/protocol/error_body.h"
#include "daemon/server/connection.h"
#include "daemon/server/disk_watch.h"
#include "daemon/server/events.h"
#include "daemon/server/log.h"
#include "daemon/server/sockets.h"

namespace kvstrata::daemon {

namespace {

constexpr Milliseconds tick_period{100};
constexpr Milliseconds accept_pause{100};  // after an error, for example no descriptors left
constexpr int accepts_in_turn_max = 64;

/// Refused clients that may wait for their answer at a time.
std::uint64_t refused_open_max(std::uint64_t connections_max) {
  return std::clamp<std::uint64_t>(connections_max / 8, 16, 64);
}

/// Says why in one piece, without waiting to be asked.
void refuse_at_once(int socket, const Error& error) {
  const ByteVector body = protocol::error_body(error).serialize();
  protocol::Header header;
  header.kind = protocol::MessageKind::reply;
  header.status = static_cast<std::uint16_t>(error.kind());
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  const protocol::HeaderBytes head = protocol::serialize(header);
  ByteVector message(head.begin(), head.end());
  message.insert(message.end(), body.begin(), body.end());
  (void)send(socket, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, ControlLoop& loop, Engine& engine)
      : options_(std::move(options)),
        loop_(loop),
        shared_context_(new Context{
            .engine = engine,
            .clock = *options_.clock,
            .tenants = TenantTable(options_.tenants, options_.own_uid),
            .inline_memory = InlineMemory::create(options_.inline_bytes_max, loop.executor()),
            .limits = options_.limits,
            .deadlines = DeadlineQueue([this] { arm_deadline_timer(); }),
            .server_name = options_.server_name,
            .store_id = options_.store_id,
            .connections_max = options_.connections_max}),
        context_(*shared_context_),
        deadline_timer_(loop.impl().io) {
    randombytes_buf(context_.boot.data(), context_.boot.size());
    engine.on_event([this](const Event& event) { route(event); });
    loop.every(tick_period, [this, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) tick();
    });
  }

  ~Impl() {
    context_.engine.on_event({});
    close_all();
  }

  Status listen();
  void stop_listening();
  std::uint16_t tcp_port() const { return tcp_ ? bound_port(tcp_.get()) : std::uint16_t{0}; }
  void adopt(UniqueFd socket);
  void drain(Milliseconds limit, std::function<void()> done);
  const Context& context() const { return context_; }

 private:
  asio::awaitable<void> accept_loop(std::shared_ptr<asio::posix::stream_descriptor> listener);
  bool accept_from(int listener);
  Status add_acceptor(int fd);
  void connection_closed(ConnectionId id);
  void tick();
  void arm_deadline_timer();
  void route(const Event& event);
  void finish_drain_if_quiet(MonotonicTime now);
  void close_all();
  std::vector<std::shared_ptr<Connection>> all() const;

  ServerOptions options_;
  ControlLoop& loop_;
  std::shared_ptr<Context> shared_context_;
  Context& context_;
  std::optional<UnixListener> unix_;
  UniqueFd tcp_;
  std::vector<std::shared_ptr<asio::posix::stream_descriptor>> acceptors_;
  std::unordered_map<ConnectionId, std::shared_ptr<Connection>> connections_;
  std::uint64_t last_connection_ = 0;
  std::uint64_t refused_open_ = 0;
  DiskWatch disk_watch_;
  asio::steady_timer deadline_timer_;
  bool engine_drained_ = false;
  MonotonicTime drain_deadline_;
  std::function<void()> on_drained_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

Status Server::Impl::listen() {
  if (!options_.socket_path.empty()) {
    KV_ASSIGN(UnixListener listener,
              UnixListener::open(options_.socket_path, options_.socket_mode));
    unix_.emplace(std::move(listener));
    KV_TRY(add_acceptor(unix_->fd()));
  }
  if (options_.tcp) {
    KV_ASSIGN(tcp_, listen_tcp(*options_.tcp));
    KV_TRY(add_acceptor(tcp_.get()));
  }
  return {};
}

/// With a descriptor of its own: asio closes what it waits for.
Status Server::Impl::add_acceptor(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return error_from_errno(errno, "listening");
  auto listener = std::make_shared<asio::posix::stream_descriptor>(loop_.impl().io, copy.release());
  acceptors_.push_back(listener);
  asio::co_spawn(loop_.impl().io, accept_loop(std::move(listener)), asio::detached);
  return {};
}

asio::awaitable<void> Server::Impl::accept_loop(
    std::shared_ptr<asio::posix::stream_descriptor> listener) {
  const std::weak_ptr<int> alive = alive_;
  while (true) {
    Failure failure;
    co_await listener->async_wait(asio::posix::stream_descriptor::wait_read,
                                  asio::redirect_error(asio::use_awaitable, failure));
    if (failure || alive.expired()) co_return;
    if (accept_from(listener->native_handle())) continue;
    asio::steady_timer pause(loop_.impl().io, accept_pause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, failure));
    if (alive.expired()) co_return;
  }
}

/// False if the system refuses for now.
bool Server::Impl::accept_from(int listener) {
  for (int i = 0; i < accepts_in_turn_max; ++i) {
    auto socket = accept_connection(listener);
    if (socket) {
      adopt(std::move(*socket));
      continue;
    }
    if (socket.error().kind() == ErrorKind::not_found) return true;
    log::folded(LogLevel::error, "accept", socket.error().message());
    return false;
  }
  return true;
}

void Server::Impl::adopt(UniqueFd socket) {
  if (context_.draining) return;
  Peer peer = peer_of(socket.get());
  tune(socket.get(), peer);
  const ConnectionId id{++last_connection_};
  const Error too_many(ErrorKind::busy, "too many connections; try again later");
  const bool refused = context_.connections >= context_.connections_max;
  if (refused) {
    ++context_.counters.connections_refused;
    log::folded(LogLevel::warning, "connections-max",
                peer.name + " refused: " + std::to_string(context_.connections_max) +
                    " connections are open (server.connections_max, or the open-files limit)");
    if (refused_open_ >= refused_open_max(context_.connections_max)) {
      return refuse_at_once(socket.get(), too_many);
    }
  }
  const auto connection = std::make_shared<Connection>(
      shared_context_, loop_.impl(), id, std::move(socket), std::move(peer),
      [this](ConnectionId closed) { connection_closed(closed); });
  if (refused) {
    ++refused_open_;
    connection->session().refuse(too_many);
  } else {
    ++context_.connections;
    ++context_.counters.connections_accepted;
  }
  connections_.emplace(id, connection);
  connection->start();
}

void Server::Impl::connection_closed(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (found->second->session().is_refused()) {
    --refused_open_;
  } else {
    --context_.connections;
    ++context_.counters.connections_closed;
  }
  connections_.erase(found);
}

std::vector<std::shared_ptr<Connection>> Server::Impl::all() const {
  std::vector<std::shared_ptr<Connection>> connections;
  connections.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) connections.push_back(connection);
  return connections;
}

void Server::Impl::tick() {
  const MonotonicTime now = context_.clock.now();
  context_.deadlines.expire(now);
  for (const auto& [id, reason] : context_.engine.tick()) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) std::shared_ptr(found->second)->close(reason);
  }
  for (const auto& connection : all()) connection->check(now);
  for (const auto& line : disk_watch_.look(context_.engine.disk_troubles(), now)) {
    log::folded(line.is_warning ? LogLevel::warning : LogLevel::info, "disk-tier", line.text);
  }
  log::print_folded();
  finish_drain_if_quiet(now);
}

void Server::Impl::arm_deadline_timer() {
  const auto next = context_.deadlines.next();
  if (!next) return;
  deadline_timer_.expires_after(*next - context_.clock.now());
  deadline_timer_.async_wait([this, alive = std::weak_ptr<int>(alive_)](const Failure& failure) {
    if (failure || alive.expired()) return;
    context_.deadlines.expire(context_.clock.now());
    arm_deadline_timer();
  });
}

void Server::Impl::route(const Event& event) {
  const EncodedEvent encoded = encode_event(event);
  if (event.kind == Event::Kind::chunks_retired) {
    const auto found = connections_.find(event.to);
    if (found != connections_.end()) {
      found->second->session().send_event(encoded.body, encoded.payload, true);
    }
    return;
  }
  for (const auto& [id, connection] : connections_) {
    if (connection->session().is_watching(event.tenant)) {
      connection->session().send_event(encoded.body, encoded.payload, false);
    }
  }
}

void Server::Impl::stop_listening() {
  for (const auto& acceptor : acceptors_) {
    Failure ignored;
    acceptor->close(ignored);
  }
  acceptors_.clear();
  unix_.reset();
  tcp_ = UniqueFd();
}

void Server::Impl::drain(Milliseconds limit, std::function<void()> done) {
  if (context_.draining) return;
  context_.draining = true;
  on_drained_ = std::move(done);
  drain_deadline_ = context_.clock.now() + limit;
  stop_listening();
  protocol::Body body;
  body.set_text("event", "draining");
  for (const auto& connection : all()) connection->session().send_event(body, {}, true);
  context_.engine.drain(limit, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    engine_drained_ = true;
    // Not from within the engine: closing connections calls it back.
    loop_.executor().post([this, alive] {
      if (!alive.expired()) finish_drain_if_quiet(context_.clock.now());
    });
  });
}

void Server::Impl::finish_drain_if_quiet(MonotonicTime now) {
  if (!on_drained_) return;
  const bool quiet =
      engine_drained_ && std::all_of(connections_.begin(), connections_.end(),
                                     [](const auto& entry) { return entry.second->is_quiet(); });
  if (!quiet && now < drain_deadline_) return;
  close_all();
  std::exchange(on_drained_, nullptr)();
}

void Server::Impl::close_all() {
  stop_listening();
  for (const auto& connection : all()) connection->close({});
}

Server::Server(ServerOptions options, ControlLoop& loop, Engine& engine)
    : impl_(std::make_unique<Impl>(std::move(options), loop, engine)) {}
Server::~Server() = default;

Status Server::listen() {
  return impl_->listen();
}
std::uint16_t Server::tcp_port() const {
  return impl_->tcp_port();
}
void Server::adopt(UniqueFd socket) {
  impl_->adopt(std::move(socket));
}
void Server::drain(Milliseconds limit, std::function<void()> done) {
  impl_->drain(limit, std::move(done));
}
const Context& Server::context() const {
  return impl_->context();
}

}  // namespace kvstrata::daemon
