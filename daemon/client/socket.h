// A Socket is a connected stream, Unix or TCP, that never blocks but in wait(). It carries file
// descriptors where it is a Unix one. One thread at a time.
#pragma once

#include <sys/uio.h>

#include <optional>
#include <span>
#include <vector>

#include "daemon/client/address.h"
#include "daemon/client/file_descriptor.h"
#include "kvstrata/clock.h"
#include "kvstrata/result.h"

namespace kvstrata::client {

/// Buffers a single system call reads or writes.
inline constexpr std::size_t buffers_per_call_max = 64;

class Socket {
 public:
  /// One attempt at each address of the host. `unavailable` if nobody listens,
  /// `deadline_exceeded` if nobody answers in time.
  static Result<Socket> connect(const Address& address, MonotonicTime deadline);

  bool is_unix() const { return is_unix_; }
  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }

  /// Bytes written, 0 if the socket takes none now. `unavailable` once the peer is gone.
  Result<std::size_t> send(std::span<const iovec> buffers);

  /// Bytes read into `buffers` in order; nothing if there are none now. `unavailable` at the end of
  /// the stream. Descriptors that came with them are appended to `descriptors`.
  Result<std::optional<std::size_t>> receive(std::span<const iovec> buffers,
                                             std::vector<FileDescriptor>& descriptors);

  struct Ready {
    bool readable = false;
    bool writable = false;
    bool woken = false;  ///< `wake_fd` became readable
  };
  /// Waits until the socket is readable, writable (if asked for) or `wake_fd` (-1: none) is;
  /// nothing of it: the deadline passed.
  Result<Ready> wait(bool for_writing, int wake_fd, MonotonicTime deadline) const;

 private:
  Socket(FileDescriptor fd, bool is_unix) : fd_(std::move(fd)), is_unix_(is_unix) {}
  static Result<Socket> connect_unix(const Address& address, MonotonicTime deadline);
  static Result<Socket> connect_tcp(const Address& address, MonotonicTime deadline);

  FileDescriptor fd_;
  bool is_unix_;
};

}  // namespace kvstrata::client
