#include "daemon/client/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "kvstrata/protocol.h"

namespace kvstrata::client {

namespace {

constexpr int send_buffer_bytes = 1 << 20;
constexpr int dead_host_ms = 30'000;  // a host that acknowledges nothing for so long is gone

timespec time_left(MonotonicTime deadline) {
  using std::chrono::nanoseconds;
  const nanoseconds left = deadline - Clock::system().now();
  const auto count = left.count() < 0 ? 0 : left.count();
  return {.tv_sec = count / 1'000'000'000, .tv_nsec = count % 1'000'000'000};
}

Error unreachable(const std::string& where, int error_number) {
  return {ErrorKind::unavailable, "no daemon at " + where + ": " + std::strerror(error_number)};
}

/// Finishes a non-blocking connect().
Status connect_within(int fd, const sockaddr* address, socklen_t length, const std::string& where,
                      MonotonicTime deadline) {
  if (::connect(fd, address, length) == 0) return {};
  if (errno == EACCES || errno == EPERM) return error_from_errno(errno, "connecting to " + where);
  if (errno != EINPROGRESS) return unreachable(where, errno);  // EAGAIN: a full backlog
  for (;;) {
    pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
    const timespec left = time_left(deadline);
    const int ready = ::ppoll(&entry, 1, &left, nullptr);
    if (ready > 0) break;
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return error_from_errno(errno, "ppoll");
    return Error(ErrorKind::deadline_exceeded, "no answer from " + where);
  }
  int failure = 0;
  socklen_t failure_bytes = sizeof failure;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &failure_bytes);
  if (failure != 0) return unreachable(where, failure);
  return {};
}

FileDescriptor new_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // best effort: only speed depends on it
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

Error peer_gone(std::string_view what) {
  return {ErrorKind::unavailable, "the daemon closed the connection" + std::string(what)};
}

/// Owns the descriptors of one received message. False: more came than there was room for.
bool take_descriptors(const msghdr& message, std::vector<FileDescriptor>& descriptors) {
  for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return (message.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace

Result<Socket> Socket::connect(const Address& address, MonotonicTime deadline) {
  return address.is_unix ? connect_unix(address, deadline) : connect_tcp(address, deadline);
}

Result<Socket> Socket::connect_unix(const Address& address, MonotonicTime deadline) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.c_str(),
              address.path.size() + 1);  // parse_address checks
  FileDescriptor fd = new_socket(AF_UNIX);
  if (!fd.is_open()) return error_from_errno(errno, "socket");
  KV_TRY(connect_within(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name,
                        "unix:" + address.path, deadline));
  set_option(fd.get(), SOL_SOCKET, SO_SNDBUF, send_buffer_bytes);
  return Socket(std::move(fd), true);
}

Result<Socket> Socket::connect_tcp(const Address& address, MonotonicTime deadline) {
  const std::string where = "tcp:" + address.host + ":" + address.port;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (failure != 0) {
    return Error(ErrorKind::unavailable, "no daemon at " + where + ": " + ::gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  Status last = Error(ErrorKind::unavailable, "no daemon at " + where + ": no address");
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor fd = new_socket(entry->ai_family);
    if (!fd.is_open()) continue;  // for example no IPv6 here
    last = connect_within(fd.get(), entry->ai_addr, entry->ai_addrlen, where, deadline);
    if (!last) continue;
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, dead_host_ms);
    return Socket(std::move(fd), false);
  }
  return last.error();
}

Result<std::size_t> Socket::send(std::span<const iovec> buffers) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(buffers.data());
  message.msg_iovlen = std::min(buffers.size(), buffers_per_call_max);
  for (;;) {
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return peer_gone(std::string(" (") + std::strerror(errno) + ")");
  }
}

Result<std::optional<std::size_t>> Socket::receive(std::span<const iovec> buffers,
                                                   std::vector<FileDescriptor>& descriptors) {
  alignas(cmsghdr)
      std::byte control[CMSG_SPACE(sizeof(int) * protocol::descriptors_per_message_max)];
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(buffers.data());
  message.msg_iovlen = std::min(buffers.size(), buffers_per_call_max);
  for (;;) {
    message.msg_control = is_unix_ ? control : nullptr;
    message.msg_controllen = is_unix_ ? sizeof control : 0;
    const ssize_t received = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return std::optional<std::size_t>();
    }
    if (received < 0) return peer_gone(std::string(" (") + std::strerror(errno) + ")");
    if (!take_descriptors(message, descriptors)) {
      return Error(ErrorKind::protocol, "too many file descriptors in one message");
    }
    if (received == 0) return peer_gone("");
    return std::optional(static_cast<std::size_t>(received));
  }
}

Result<Socket::Ready> Socket::wait(bool for_writing, int wake_fd, MonotonicTime deadline) const {
  const auto events = static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN);
  pollfd entries[2] = {{.fd = fd(), .events = events, .revents = 0},
                       {.fd = wake_fd, .events = POLLIN, .revents = 0}};
  for (;;) {
    const timespec left = time_left(deadline);
    const int ready = ::ppoll(entries, wake_fd >= 0 ? 2 : 1, &left, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return error_from_errno(errno, "ppoll");
    return Ready{.readable = (entries[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0,
                 .writable = (entries[0].revents & (POLLOUT | POLLHUP | POLLERR)) != 0,
                 .woken = wake_fd >= 0 && (entries[1].revents & POLLIN) != 0};
  }
}

}  // namespace kvstrata::client
