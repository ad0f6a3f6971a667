// Sockets to listen on, and what the kernel knows of a connection. Stateless but for SocketFile;
// control thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/config/listen_address.h"
#include "daemon/server/tenants.h"
#include "daemon/server/unique_fd.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

/// A listening Unix socket and its file, which goes with it unless somebody replaced it.
class UnixListener {
 public:
  /// Creates the file with exactly `mode`. A socket nobody answers on is replaced; `locked` if
  /// somebody does, `exists` if the path is something else than a socket.
  static Result<UnixListener> open(const std::string& path, unsigned mode);

  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();

  int fd() const { return fd_.get(); }
  /// Removes the file and stops listening.
  void close();

 private:
  UnixListener(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

Result<UniqueFd> listen_tcp(const ListenAddress& address);
/// The port that was bound, for addresses with port 0.
std::uint16_t bound_port(int fd);

/// Accepts without blocking; `not_found` when nobody waits. The result is non-blocking.
Result<UniqueFd> accept_connection(int listener);

Peer peer_of(int fd);
/// Larger buffers for Unix sockets where the system allows, no delay for TCP.
void tune(int fd, const Peer& peer);

/// Raises the soft limit of open files to the hard one and returns it.
std::uint64_t raise_file_limit();

}  // namespace kvstrata::daemon
