// A FrameReader takes messages off a socket as bytes arrive: small ones through a buffer, payloads
// straight into where their receiver wants them. Every length is checked before memory is taken.
// One thread at a time; after an error it can't go on.
#pragma once

#include <vector>

#include "daemon/client/socket.h"
#include "daemon/protocol/body.h"
#include "daemon/protocol/header.h"

namespace kvstrata::client {

class FrameReader {
 public:
  /// Who receives. An error from either call ends the reading.
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Where the payload goes, `header.payload_bytes` in all (not 0).
    virtual Result<std::vector<MutableBytes>> place_payload(const protocol::Header& header,
                                                            const protocol::Body& body) = 0;
    virtual Status on_message(const protocol::Header& header, protocol::Body body,
                              std::vector<FileDescriptor> descriptors) = 0;
  };

  explicit FrameReader(Socket& socket) : socket_(socket) {}

  /// Reads what is there until one message was handed over (true) or nothing is left (false).
  Result<bool> advance(Handler& handler);

  /// The request whose payload is half received; 0: none.
  std::uint64_t request_being_filled() const {
    return stage_ == Stage::payload ? header_.request_id : 0;
  }

 private:
  enum class Stage : std::uint8_t { header, body, payload };

  /// These read more if needed; false: not there yet.
  Result<bool> read_header();
  Result<bool> read_body(Handler& handler);
  Result<bool> fill_targets();

  void set_targets(std::span<const MutableBytes> places);
  void fill_from_buffer();
  Result<bool> receive();  ///< into the targets, the rest into the buffer
  Status close_strays();

  static constexpr std::size_t buffer_bytes = 64 << 10;

  Socket& socket_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_bytes);
  std::size_t begin_ = 0, end_ = 0;  // what of buffer_ is not consumed yet
  std::vector<FileDescriptor> arrived_;

  Stage stage_ = Stage::header;
  protocol::Header header_;
  ByteVector body_bytes_;
  protocol::Body body_;
  std::vector<FileDescriptor> descriptors_;  // of this message
  std::vector<iovec> targets_;
  std::size_t next_target_ = 0;
};

}  // namespace kvstrata::client
