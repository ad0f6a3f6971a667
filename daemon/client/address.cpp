#include "daemon/client/address.h"

#include <sys/un.h>

#include <charconv>
#include <cstdint>

namespace kvstrata::client {

namespace {

constexpr std::string_view default_port = "7410";

Error not_an_address(std::string_view text, std::string_view why) {
  return {ErrorKind::invalid_argument,
          "address '" + std::string(text.substr(0, 256)) + "': " + std::string(why) +
              "; write \"unix:/path/to/kvstrata.sock\" or \"tcp:host:7410\""};
}

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  return failure == std::errc{} && rest == text.data() + text.size() && port != 0;
}

Result<Address> parse_tcp(std::string_view text, std::string_view rest) {
  Address address{.is_unix = false, .path = {}, .host = {}, .port = {}};
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == rest.npos) return not_an_address(text, "a bracket is not closed");
    address.host = rest.substr(1, close - 1);
    port = rest.substr(close + 1);
  } else {
    const std::size_t colon = rest.find(':');
    address.host = rest.substr(0, colon);
    port = colon == rest.npos ? std::string_view() : rest.substr(colon);
  }
  if (address.host.empty()) return not_an_address(text, "the host is missing");
  if (!port.empty() && !port.starts_with(':')) return not_an_address(text, "text after ']'");
  address.port = port.empty() ? default_port : port.substr(1);
  if (!is_port(address.port)) return not_an_address(text, "a port is 1..65535");
  return address;
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with("tcp:")) return parse_tcp(text, text.substr(4));
  if (!text.starts_with("unix:")) return not_an_address(text, "it names no transport");
  Address address;
  address.path = text.substr(5);
  if (address.path.empty()) return not_an_address(text, "the path is missing");
  if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return not_an_address(text, "the path is longer than the system's limit for sockets");
  }
  return address;
}

}  // namespace kvstrata::client
