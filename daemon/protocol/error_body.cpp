#include "daemon/protocol/error_body.h"

#include "kvstrata/check.h"

namespace kvstrata::protocol {

ErrorKind kind_of_status(std::uint16_t status) {
  KV_CHECK(status != 0, "status 0 is no error");
  const auto last = static_cast<std::uint16_t>(ErrorKind::internal);
  return status <= last ? static_cast<ErrorKind>(status) : ErrorKind::internal;
}

Body error_body(const Error& error) {
  Body body;
  body.set_text("kind", to_string(error.kind()));
  body.set_text("message", std::string_view(error.message()).substr(0, error_message_bytes_max));
  return body;
}

Error decode_error(std::uint16_t status, const Body& body) {
  const ErrorKind kind = kind_of_status(status);
  auto message = body.get_text("message", error_message_bytes_max);
  if (message.ok()) return {kind, std::move(message).value()};
  return {kind, "status " + std::to_string(status) + " without a message"};
}

}  // namespace kvstrata::protocol
