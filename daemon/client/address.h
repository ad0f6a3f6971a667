// An Address is where a daemon is reached: a Unix socket or a TCP host and port. A value.
#pragma once

#include <string>
#include <string_view>

#include "kvstrata/result.h"

namespace kvstrata::client {

struct Address {
  bool is_unix = true;
  std::string path;  ///< Unix
  std::string host;  ///< TCP: a name or a numeric address, without brackets
  std::string port;  ///< TCP: decimal

  friend bool operator==(const Address&, const Address&) = default;
};

/// "unix:/path", "tcp:host:port", "tcp:[::1]:7410"; without a port: 7410.
Result<Address> parse_address(std::string_view text);

}  // namespace kvstrata::client
