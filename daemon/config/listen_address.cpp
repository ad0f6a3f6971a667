#include "daemon/config/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

namespace kvstrata::daemon {

namespace {

Error not_an_address(std::string_view text) {
  return {ErrorKind::invalid_argument, "\"" + std::string(text.substr(0, 64)) +
                                           "\" is not an address to listen on; write a numeric "
                                           "address and a port, as in \"127.0.0.1:7410\""};
}

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  std::uint16_t port = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failure != std::errc{} || rest != text.data() + text.size()) return not_an_address(whole);
  return port;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
  ListenAddress address;
  std::string_view host = text;
  std::string_view port;
  const bool bracketed = text.starts_with('[');
  if (bracketed) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return not_an_address(text);
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) return not_an_address(text);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!port.empty()) {
    KV_ASSIGN(address.port, parse_port(port.substr(1), text));
  }

  address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  in_addr v4{};
  in6_addr v6{};
  if (!bracketed && inet_pton(AF_INET, address.host.c_str(), &v4) == 1) {
    address.loopback = (ntohl(v4.s_addr) >> 24) == 127;
  } else if (bracketed && inet_pton(AF_INET6, address.host.c_str(), &v6) == 1) {
    address.loopback = IN6_IS_ADDR_LOOPBACK(&v6);
  } else {
    return not_an_address(text);
  }
  return address;
}

}  // namespace kvstrata::daemon
