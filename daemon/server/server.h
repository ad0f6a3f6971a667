// A Server is the daemon's front: it accepts connections, gives each a Session, and keeps the
// engine's clock ticking.
//
// Control thread, but for create() and listen() before the loop runs. Lifetime: destroyed on the
// control thread (or after the loop ended), before the engine and the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/listen_address.h"
#include "daemon/server/context.h"
#include "daemon/server/control_loop.h"
#include "daemon/server/unique_fd.h"

namespace kvstrata::daemon {

struct ServerOptions {
  std::string socket_path;  ///< empty: no Unix socket
  unsigned socket_mode = 0600;
  std::optional<ListenAddress> tcp;
  std::vector<TenantConfig> tenants;
  std::uint32_t own_uid = 0;  ///< peers with it are admins
  std::uint64_t connections_max = 1024;
  std::uint64_t inline_bytes_max = std::uint64_t{256} << 20;
  SessionLimits limits;
  std::string server_name = "kvstratad";
  std::string store_id;
  const Clock* clock = &Clock::system();
};

class Server {
 public:
  Server(ServerOptions options, ControlLoop& loop, Engine& engine);
  ~Server();

  /// Opens the sockets of the options.
  Status listen();
  std::uint16_t tcp_port() const;  ///< 0: none
  /// Serves a connected socket, as if it had been accepted.
  void adopt(UniqueFd socket);

  /// Takes no new connections and no new work, makes durable what is visible, lets replies leave,
  /// closes everything, then calls `done`. `limit` bounds all of it.
  void drain(Milliseconds limit, std::function<void()> done);

  const Context& context() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvstrata::daemon
