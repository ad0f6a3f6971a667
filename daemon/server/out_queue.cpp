#include "daemon/server/out_queue.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kvstrata/check.h"
#include "kvstrata/protocol.h"

namespace kvstrata::daemon {

namespace {

constexpr std::size_t pieces_max = 128;
constexpr std::uint64_t flush_bytes_max = 8_MiB;  // then others get a turn

/// Room for the descriptors of one message, aligned as the kernel wants it.
struct ControlArea {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * protocol::descriptors_per_message_max)];
};

void attach(msghdr& message, ControlArea& area, const std::vector<UniqueFd>& descriptors) {
  KV_CHECK(descriptors.size() <= protocol::descriptors_per_message_max, "too many descriptors");
  std::memset(area.bytes, 0, sizeof area.bytes);
  message.msg_control = area.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::size_t offset = 0;
  for (const UniqueFd& descriptor : descriptors) {
    const int fd = descriptor.get();
    std::memcpy(CMSG_DATA(header) + offset, &fd, sizeof fd);
    offset += sizeof fd;
  }
}

}  // namespace

std::uint64_t OutMessage::bytes() const {
  std::uint64_t sum = head.size();
  for (const ByteView piece : payload) sum += piece.size();
  return sum;
}

void OutQueue::push(OutMessage message) {
  const std::uint64_t bytes = message.bytes();
  if (messages_.empty()) front_bytes_ = bytes;
  queued_bytes_ += bytes;
  messages_.push_back(std::move(message));
}

/// Fills `gathered_` from the front; true if the first message's descriptors go with it. A message
/// with descriptors begins a call of its own: the kernel ties them to that call's first byte.
bool OutQueue::gather() {
  gathered_.clear();
  std::uint64_t skip = front_sent_bytes_;
  const auto add = [&](const std::byte* data, std::size_t bytes) {
    const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip, bytes));
    skip -= skipped;
    if (skipped == bytes) return;
    gathered_.push_back({const_cast<std::byte*>(data) + skipped, bytes - skipped});
  };
  bool is_first = true;
  for (const OutMessage& message : messages_) {
    if (!is_first && !message.descriptors.empty()) break;
    is_first = false;
    add(message.head.data(), message.head.size());
    for (const ByteView piece : message.payload) {
      if (gathered_.size() == pieces_max) break;
      add(piece.data(), piece.size());
    }
    if (gathered_.size() == pieces_max) break;
  }
  return front_sent_bytes_ == 0 && !messages_.front().descriptors.empty();
}

OutQueue::Flush OutQueue::flush(int fd) {
  std::uint64_t share = flush_bytes_max;
  while (!messages_.empty()) {
    if (share == 0) return Flush::more;
    const bool with_descriptors = gather();
    msghdr message{};
    ControlArea area;
    message.msg_iov = gathered_.data();
    message.msg_iovlen = gathered_.size();
    if (with_descriptors) attach(message, area, messages_.front().descriptors);

    const ssize_t bytes = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      return errno == EAGAIN || errno == EWOULDBLOCK ? Flush::would_block : Flush::failed;
    }
    if (with_descriptors && bytes > 0) messages_.front().descriptors.clear();
    advance(static_cast<std::uint64_t>(bytes));
    share -= std::min(share, static_cast<std::uint64_t>(bytes));
  }
  return Flush::empty;
}

void OutQueue::advance(std::uint64_t bytes) {
  queued_bytes_ -= bytes;
  sent_bytes_ += bytes;
  front_sent_bytes_ += bytes;
  while (!messages_.empty() && front_sent_bytes_ >= front_bytes_) {
    front_sent_bytes_ -= front_bytes_;
    const OutMessage done = std::move(messages_.front());
    messages_.pop_front();
    front_bytes_ = messages_.empty() ? 0 : messages_.front().bytes();
    sent_(done);
  }
}

void OutQueue::clear() {
  messages_.clear();
  queued_bytes_ = 0;
  front_sent_bytes_ = 0;
}

}  // namespace kvstrata::daemon
