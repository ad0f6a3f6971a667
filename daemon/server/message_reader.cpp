#include "daemon/server/message_reader.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "kvstrata/check.h"

namespace kvstrata::daemon {

namespace {

constexpr std::size_t buffer_bytes = 32_KiB;
// Memory for a payload is touched in steps that grow with what came: a header alone costs nothing.
constexpr std::uint64_t payload_step_bytes_min = 64_KiB;
constexpr std::uint64_t payload_step_bytes_max = 1_MiB;
constexpr std::size_t kept_body_bytes_max = 64_KiB;

}  // namespace

MessageReader::MessageReader() : buffer_(buffer_bytes) {}

std::size_t MessageReader::take(std::byte* to, std::uint64_t bytes_max) {
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(buffered(), bytes_max));
  if (to != nullptr && bytes != 0) std::memcpy(to, buffer_.data() + begin_, bytes);
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
  return bytes;
}

MessageReader::Step MessageReader::advance() {
  switch (stage_) {
    case Stage::header: return advance_header();
    case Stage::header_seen: return Step::header;
    case Stage::body: return advance_body();
    case Stage::body_seen: return Step::body;
    case Stage::store:
    case Stage::skip: return advance_payload();
  }
  return Step::bytes;
}

MessageReader::Step MessageReader::advance_header() {
  if (buffered() < protocol::header_bytes) return Step::bytes;
  protocol::HeaderBytes bytes;
  take(bytes.data(), bytes.size());
  header_ = protocol::load_header(bytes);
  stage_ = Stage::header_seen;
  return Step::header;
}

void MessageReader::accept_header() {
  KV_CHECK(stage_ == Stage::header_seen, "no header to accept");
  stage_ = Stage::body;
  received_ = 0;
  if (body_.capacity() > kept_body_bytes_max) body_ = ByteVector();
  body_.clear();
}

MessageReader::Step MessageReader::advance_body() {
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffered(), header_.body_bytes - received_));
  body_.insert(body_.end(), buffer_.data() + begin_, buffer_.data() + begin_ + bytes);
  take(nullptr, bytes);
  received_ += bytes;
  if (received_ < header_.body_bytes) return Step::bytes;
  stage_ = Stage::body_seen;
  return Step::body;
}

void MessageReader::store_payload(std::shared_ptr<ByteVector> payload) {
  KV_CHECK(stage_ == Stage::body_seen, "no message to store the payload of");
  stage_ = Stage::store;
  received_ = 0;
  payload_ = std::move(payload);
}

void MessageReader::skip_payload() {
  KV_CHECK(stage_ == Stage::body_seen, "no message to skip the payload of");
  stage_ = Stage::skip;
  received_ = 0;
  payload_.reset();
}

void MessageReader::grow_payload() {
  const std::uint64_t step = std::clamp(received_, payload_step_bytes_min, payload_step_bytes_max);
  const std::uint64_t wanted = std::min(header_.payload_bytes, received_ + step);
  if (payload_->size() < wanted) payload_->resize(wanted);
}

MessageReader::Step MessageReader::advance_payload() {
  const std::uint64_t missing = header_.payload_bytes - received_;
  if (stage_ == Stage::skip) {
    received_ += take(nullptr, missing);
  } else if (missing != 0 && buffered() != 0) {
    grow_payload();
    received_ += take(payload_->data() + received_, missing);
  }
  if (received_ < header_.payload_bytes) return Step::bytes;
  stage_ = Stage::header;
  return Step::message;
}

MessageReader::Receive MessageReader::receive(int fd) {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  iovec places[2];
  int count = 0;
  std::size_t direct = 0;
  if (stage_ == Stage::store) {  // advance() took all that was buffered
    grow_payload();
    direct = std::min<std::uint64_t>(payload_->size(), header_.payload_bytes) - received_;
    places[count++] = {payload_->data() + received_, direct};
  }
  places[count++] = {buffer_.data() + end_, buffer_.size() - end_};

  ssize_t bytes = 0;
  do {
    bytes = readv(fd, places, count);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Receive::would_block : Receive::closed;
  }
  if (bytes == 0) return Receive::closed;
  received_bytes_ += static_cast<std::uint64_t>(bytes);
  const bool drained = static_cast<std::size_t>(bytes) < direct + buffer_.size() - end_;
  const std::size_t to_payload = std::min(static_cast<std::size_t>(bytes), direct);
  received_ += to_payload;
  end_ += static_cast<std::size_t>(bytes) - to_payload;
  return drained ? Receive::drained : Receive::more;
}

}  // namespace kvstrata::daemon
