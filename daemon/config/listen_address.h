// A ListenAddress is where TCP is offered: a numeric address and a port. A value; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvstrata/result.h"

namespace kvstrata::daemon {

inline constexpr std::uint16_t default_port = 7410;

struct ListenAddress {
  std::string host;                   ///< numeric, IPv4 or IPv6
  std::uint16_t port = default_port;  ///< 0: any free one
  bool loopback = true;

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

/// "127.0.0.1:7410", "[::1]:7410", "0.0.0.0" or "localhost:7410"; no port: 7410. Names are not
/// looked up: what is bound must be plain to see.
Result<ListenAddress> parse_listen_address(std::string_view text);

}  // namespace kvstrata::daemon
