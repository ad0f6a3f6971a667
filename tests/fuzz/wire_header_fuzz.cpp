// Fuzzes the message header: what is accepted keeps its bytes and every limit.
#include <algorithm>

#include "daemon/protocol/header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvstrata;
  using namespace kvstrata::protocol;
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto header = parse_header(bytes);
  if (size >= header_bytes) {
    const auto first = bytes.first<header_bytes>();
    KV_CHECK(std::ranges::equal(serialize(load_header(first)), first), "a header loses bytes");
  }
  if (!header.ok()) {
    const ErrorKind kind = header.error().kind();
    KV_CHECK(kind == ErrorKind::protocol || kind == ErrorKind::too_large, "an undocumented kind");
    return 0;
  }
  KV_CHECK(size == header_bytes, "a header of another length");
  KV_CHECK(header->body_bytes <= body_bytes_max && header->payload_bytes <= payload_bytes_max &&
               header->descriptors <= descriptors_per_message_max,
           "a length over its limit");
  KV_CHECK(to_string(header->verb) != "unknown verb", "a verb without a name");
  KV_CHECK((header->verb == Verb::event) == (header->kind == MessageKind::event),
           "an event is one by verb and by kind");
  return 0;
}
