#include "daemon/client/frame_reader.h"

#include <algorithm>
#include <array>

namespace kvstrata::client {

Result<bool> FrameReader::advance(Handler& handler) {
  for (;;) {
    switch (stage_) {
      case Stage::header: {
        KV_ASSIGN(const bool complete, read_header());
        if (!complete) return false;
        break;
      }
      case Stage::body: {
        KV_ASSIGN(const bool complete, read_body(handler));
        if (!complete) return false;
        break;
      }
      case Stage::payload: {
        KV_ASSIGN(const bool complete, fill_targets());
        if (!complete) return false;
        stage_ = Stage::header;
        KV_TRY(close_strays());
        KV_TRY(handler.on_message(header_, std::move(body_), std::move(descriptors_)));
        return true;
      }
    }
  }
}

Result<bool> FrameReader::read_header() {
  targets_.clear();
  next_target_ = 0;
  while (end_ - begin_ < protocol::header_bytes) {
    KV_ASSIGN(const bool more, receive());
    if (!more) return false;
  }
  KV_ASSIGN(header_, protocol::parse_header({buffer_.data() + begin_, protocol::header_bytes}));
  begin_ += protocol::header_bytes;
  if (header_.kind == protocol::MessageKind::request) {
    return Error(ErrorKind::protocol, "the daemon sent a request");
  }
  if (header_.descriptors > arrived_.size()) {
    return Error(ErrorKind::protocol, "file descriptors are missing");
  }
  const auto last = arrived_.begin() + header_.descriptors;
  descriptors_.assign(std::make_move_iterator(arrived_.begin()), std::make_move_iterator(last));
  arrived_.erase(arrived_.begin(), last);
  body_bytes_.resize(header_.body_bytes);
  const MutableBytes place[] = {body_bytes_};
  set_targets(place);
  stage_ = Stage::body;
  return true;
}

Result<bool> FrameReader::read_body(Handler& handler) {
  KV_ASSIGN(const bool complete, fill_targets());
  if (!complete) return false;
  auto body = protocol::Body::parse(body_bytes_);
  if (!body) return Error(ErrorKind::protocol, body.error().message());
  body_ = std::move(body).value();
  targets_.clear();
  next_target_ = 0;
  if (header_.payload_bytes != 0) {
    KV_ASSIGN(const auto places, handler.place_payload(header_, body_));
    std::uint64_t bytes = 0;
    for (const MutableBytes place : places) bytes += place.size();
    KV_CHECK(bytes == header_.payload_bytes, "a payload needs a place for each byte");
    set_targets(places);
  }
  stage_ = Stage::payload;
  return true;
}

Result<bool> FrameReader::fill_targets() {
  fill_from_buffer();
  while (next_target_ < targets_.size()) {
    KV_ASSIGN(const bool more, receive());
    if (!more) return false;
  }
  return true;
}

void FrameReader::set_targets(std::span<const MutableBytes> places) {
  targets_.clear();
  next_target_ = 0;
  for (const MutableBytes place : places) {
    if (!place.empty()) targets_.push_back({.iov_base = place.data(), .iov_len = place.size()});
  }
}

void FrameReader::fill_from_buffer() {
  while (next_target_ < targets_.size() && begin_ < end_) {
    iovec& target = targets_[next_target_];
    const std::size_t bytes = std::min(target.iov_len, end_ - begin_);
    std::memcpy(target.iov_base, buffer_.data() + begin_, bytes);
    begin_ += bytes;
    target = {.iov_base = static_cast<std::byte*>(target.iov_base) + bytes,
              .iov_len = target.iov_len - bytes};
    if (target.iov_len == 0) ++next_target_;
  }
}

Result<bool> FrameReader::receive() {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::array<iovec, buffers_per_call_max> places;
  const std::size_t direct = std::min(targets_.size() - next_target_, places.size() - 1);
  std::copy_n(targets_.begin() + static_cast<std::ptrdiff_t>(next_target_), direct, places.begin());
  // The buffer may only take what follows the last target.
  const bool with_buffer = next_target_ + direct == targets_.size();
  places[direct] = {.iov_base = buffer_.data() + end_, .iov_len = buffer_.size() - end_};
  const std::span used(places.data(), direct + (with_buffer ? 1 : 0));
  KV_ASSIGN(const auto received, socket_.receive(used, arrived_));
  if (arrived_.size() > 2 * protocol::descriptors_per_message_max) {
    return Error(ErrorKind::protocol, "more file descriptors came than were announced");
  }
  if (!received) return false;
  std::size_t left = *received;
  for (; left > 0 && next_target_ < targets_.size();) {
    iovec& target = targets_[next_target_];
    const std::size_t bytes = std::min(target.iov_len, left);
    target = {.iov_base = static_cast<std::byte*>(target.iov_base) + bytes,
              .iov_len = target.iov_len - bytes};
    left -= bytes;
    if (target.iov_len == 0) ++next_target_;
  }
  end_ += left;
  return true;
}

Status FrameReader::close_strays() {
  // Descriptors come with the first byte of their message: without a byte left these are nobody's.
  if (begin_ == end_) arrived_.clear();
  return {};
}

}  // namespace kvstrata::client
