// A MessageReader takes messages off a stream socket without blocking. It reads ahead into a small
// buffer, and payloads straight into their own memory, which grows only as bytes really arrive.
// What a header says is believed by the caller or not: nothing is taken before it was asked.
//
// Control thread. Lifetime: of one connection; does not own the socket.
#pragma once

#include <memory>

#include "daemon/protocol/header.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

class MessageReader {
 public:
  MessageReader();

  /// What is complete now. After `header` comes accept_header(), after `body` store_payload() or
  /// skip_payload(); then `message`. `bytes`: receive() more.
  enum class Step : std::uint8_t { bytes, header, body, message };
  Step advance();

  enum class Receive : std::uint8_t { more, drained, would_block, closed };
  /// One non-blocking read. drained: bytes came, and the socket had no more.
  Receive receive(int fd);

  const protocol::Header& header() const { return header_; }
  void accept_header();
  ByteView body() const { return body_; }
  /// `payload` has capacity for header().payload_bytes.
  void store_payload(std::shared_ptr<ByteVector> payload);
  void skip_payload();
  /// After `message`: the stored payload, if any.
  std::shared_ptr<ByteVector> take_payload() { return std::move(payload_); }

  std::uint64_t received_bytes() const { return received_bytes_; }  ///< since the start

  /// No message was accepted that is not yet complete.
  bool between_messages() const { return stage_ == Stage::header || stage_ == Stage::header_seen; }
  /// The next message has begun: its sender owes the rest.
  bool in_message() const { return stage_ != Stage::header || begin_ != end_; }

 private:
  enum class Stage : std::uint8_t { header, header_seen, body, body_seen, store, skip };

  std::size_t buffered() const { return end_ - begin_; }
  std::size_t take(std::byte* to, std::uint64_t bytes_max);
  Step advance_header();
  Step advance_body();
  Step advance_payload();
  void grow_payload();

  Stage stage_ = Stage::header;
  protocol::Header header_;
  ByteVector body_;
  std::shared_ptr<ByteVector> payload_;
  std::uint64_t received_ = 0;  ///< of the body or payload

  std::uint64_t received_bytes_ = 0;  ///< since the start
  ByteVector buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace kvstrata::daemon
