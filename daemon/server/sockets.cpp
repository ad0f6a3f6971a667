#include "daemon/server/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace kvstrata::daemon {

namespace {

constexpr int backlog = 512;
constexpr int unix_buffer_bytes = 4 << 20;

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Makes room for a new socket file, or says who is in the way.
Status clear_path(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status{} : error_from_errno(errno, path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Error(ErrorKind::exists, path +
                                        " exists and is not a socket; remove it or set another "
                                        "server.socket");
  }
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return error_from_errno(errno, "socket");
  const sockaddr_un address = unix_address(path);
  const int result =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (result != 0 && errno == ENOENT) return {};
  if (result != 0 && errno == ECONNREFUSED) {  // its process is gone
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return error_from_errno(errno, path);
    return {};
  }
  if (result != 0 && errno != EAGAIN) return error_from_errno(errno, path);
  return Error(ErrorKind::locked, "another process answers on " + path +
                                      "; stop it or give this one another --socket");
}

std::string address_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  std::uint16_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = ntohs(v4.sin_port);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = ntohs(v6.sin6_port);
  }
  return std::string(text) + ":" + std::to_string(port);
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

Status bind_and_listen(int fd, const sockaddr* address, socklen_t bytes, const std::string& what) {
  if (bind(fd, address, bytes) != 0) return error_from_errno(errno, "listening on " + what);
  if (::listen(fd, backlog) != 0) return error_from_errno(errno, "listening on " + what);
  return {};
}

}  // namespace

Result<UnixListener> UnixListener::open(const std::string& path, unsigned mode) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error(ErrorKind::invalid_argument, "not a usable socket path: \"" + path + "\"");
  }
  KV_TRY(clear_path(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return error_from_errno(errno, "socket");
  // Linux gives the file the mode of the unbound socket: no moment in which others could connect,
  // and no change of the process's umask under other threads.
  if (fchmod(fd.get(), 0600) != 0) return error_from_errno(errno, path);
  const sockaddr_un address = unix_address(path);
  KV_TRY(
      bind_and_listen(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address, path));
  UnixListener listener(std::move(fd), path);
  struct stat info{};
  if (chmod(path.c_str(), mode) != 0 || lstat(path.c_str(), &info) != 0) {
    return error_from_errno(errno, path);
  }
  listener.device_ = info.st_dev;
  listener.inode_ = info.st_ino;
  return listener;
}

UnixListener::~UnixListener() {
  close();
}

void UnixListener::close() {
  if (!fd_) return;
  struct stat info{};
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    unlink(path_.c_str());
  }
  fd_ = UniqueFd();
}

Result<UniqueFd> listen_tcp(const ListenAddress& address) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v4 = inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) != 1) {
    return Error(ErrorKind::invalid_argument, address.host + " is not a numeric address");
  }
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);

  UniqueFd fd(socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return error_from_errno(errno, "socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* where =
      is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  KV_TRY(bind_and_listen(fd.get(), where, is_v4 ? sizeof v4 : sizeof v6,
                         address.host + " port " + std::to_string(address.port)));
  return fd;
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return address.ss_family == AF_INET
             ? ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port)
             : ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

Result<UniqueFd> accept_connection(int listener) {
  while (true) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return UniqueFd(fd);
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Error(ErrorKind::not_found, "nobody waits");
    }
    return error_from_errno(errno, "accept");
  }
}

Peer peer_of(int fd) {
  Peer peer;
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    peer.name = "gone already";
    return peer;
  }
  if (address.ss_family != AF_UNIX) {
    peer.loopback = is_loopback(address);
    peer.name = address_text(address);
    return peer;
  }
  peer.is_unix = true;
  ucred credentials{};
  bytes = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    credentials.uid = static_cast<uid_t>(-1);  // nobody: no tenant has it
  }
  peer.uid = credentials.uid;
  peer.name = "uid " + std::to_string(credentials.uid) + " pid " + std::to_string(credentials.pid);
  return peer;
}

void tune(int fd, const Peer& peer) {
  const int on = 1;
  if (!peer.is_unix) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return;
  }
  const int bytes = unix_buffer_bytes;
  for (const auto& [forced, plain] :
       {std::pair{SO_SNDBUFFORCE, SO_SNDBUF}, std::pair{SO_RCVBUFFORCE, SO_RCVBUF}}) {
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0) {
      setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
    }
  }
}

std::uint64_t raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

}  // namespace kvstrata::daemon
