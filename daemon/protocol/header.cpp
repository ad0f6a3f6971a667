#include "daemon/protocol/header.h"

#include <cstddef>
#include <string>

namespace kvstrata::protocol {

// The struct is the wire format (the machine is little-endian, see bytes.h).
static_assert(offsetof(Header, verb) == 4 && offsetof(Header, kind) == 5);
static_assert(offsetof(Header, status) == 6 && offsetof(Header, request_id) == 8);
static_assert(offsetof(Header, body_bytes) == 16 && offsetof(Header, descriptors) == 20);
static_assert(offsetof(Header, reserved) == 22 && offsetof(Header, payload_bytes) == 24);

namespace {

Error not_protocol(const std::string& why) {
  return {ErrorKind::protocol, "message header: " + why};
}

Error over_limit(const std::string& field, std::uint64_t value, std::uint64_t limit) {
  return {ErrorKind::too_large, "message header: " + field + " " + std::to_string(value) +
                                    " exceeds the limit of " + std::to_string(limit)};
}

Status validate_kind(const Header& header) {
  const bool is_event_verb = header.verb == Verb::event;
  switch (header.kind) {
    case MessageKind::request:
      if (header.request_id == 0) return not_protocol("a request needs an id other than 0");
      if (header.status != 0) return not_protocol("a request has no status");
      if (is_event_verb) return not_protocol("an event is no request");
      return {};
    case MessageKind::reply:
      if (is_event_verb) return not_protocol("an event is no reply");
      return {};
    case MessageKind::event:
      if (!is_event_verb || header.request_id != 0 || header.status != 0) {
        return not_protocol("an event has verb 30, request id 0 and status 0");
      }
      return {};
  }
  return not_protocol("unknown kind " + std::to_string(static_cast<unsigned>(header.kind)));
}

}  // namespace

HeaderBytes serialize(const Header& header) {
  return std::bit_cast<HeaderBytes>(header);
}

Header load_header(std::span<const std::byte, header_bytes> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), header_bytes);
  return header;
}

Status validate(const Header& header) {
  if (header.magic != magic) return not_protocol("it does not begin with KVS1");
  const auto verb = static_cast<unsigned>(header.verb);
  if (verb == 0 || verb > verb_max) return not_protocol("unknown verb " + std::to_string(verb));
  if (header.reserved != 0) return not_protocol("the reserved field is not 0");
  KV_TRY(validate_kind(header));
  if (header.body_bytes > body_bytes_max) {
    return over_limit("body_bytes", header.body_bytes, body_bytes_max);
  }
  if (header.payload_bytes > payload_bytes_max) {
    return over_limit("payload_bytes", header.payload_bytes, payload_bytes_max);
  }
  if (header.descriptors > descriptors_per_message_max) {
    return over_limit("descriptors", header.descriptors, descriptors_per_message_max);
  }
  return {};
}

Result<Header> parse_header(ByteView bytes) {
  if (bytes.size() != header_bytes) return not_protocol("it has 32 bytes");
  const Header header = load_header(bytes.first<header_bytes>());
  KV_TRY(validate(header));
  return header;
}

}  // namespace kvstrata::protocol
