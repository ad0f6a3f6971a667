// An OutQueue holds messages until the socket takes them: header and body from its own memory,
// payload straight from wherever it lies, file descriptors with the first byte of their message.
//
// Control thread. Lifetime: of one connection; does not own the socket.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/server/unique_fd.h"
#include "kvstrata/bytes.h"
#include "kvstrata/id.h"

namespace kvstrata::daemon {

/// A message as it goes out. `payload` views must stay valid until it was sent or dropped; `lease`
/// names what keeps them so, if anything must.
struct OutMessage {
  ByteVector head;  ///< header ‖ body ‖ small payload
  std::vector<ByteView> payload;
  std::vector<UniqueFd> descriptors;
  std::optional<LeaseId> lease;

  std::uint64_t bytes() const;
};

class OutQueue {
 public:
  /// `sent` is told of every message that left completely.
  explicit OutQueue(std::function<void(const OutMessage&)> sent) : sent_(std::move(sent)) {}

  void push(OutMessage message);

  /// empty: all sent. more: this call's share is used up, call again soon. would_block: wait for
  /// the socket. failed: the connection is lost.
  enum class Flush : std::uint8_t { empty, more, would_block, failed };
  Flush flush(int fd);

  bool empty() const { return messages_.empty(); }
  std::uint64_t queued_bytes() const { return queued_bytes_; }  ///< not sent yet
  std::uint64_t sent_bytes() const { return sent_bytes_; }      ///< since the start: progress
  const std::deque<OutMessage>& messages() const { return messages_; }
  void clear();

 private:
  bool gather();
  void advance(std::uint64_t bytes);

  std::function<void(const OutMessage&)> sent_;
  std::deque<OutMessage> messages_;
  std::uint64_t front_bytes_ = 0;       ///< of the first message, in all
  std::uint64_t front_sent_bytes_ = 0;  ///< of the first message
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::vector<iovec> gathered_;
};

}  // namespace kvstrata::daemon
