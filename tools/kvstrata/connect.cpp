#include "tools/kvstrata/connect.h"

#include <cstdio>
#include <cstdlib>

#include "daemon/config/config.h"
#include "tools/kvstrata/exit_code.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

int report(const Error& error) {
  std::fprintf(stderr, "kvstrata: %s\n", printable(error.message()).c_str());
  switch (error.kind()) {
    case ErrorKind::unavailable: return exit_unreachable;
    case ErrorKind::not_found: return exit_missing;
    case ErrorKind::corrupt: return exit_damaged;
    default: return exit_failed;
  }
}

std::string address_of(const Target& target) {
  if (!target.address.empty()) {
    const bool is_path = target.address.front() == '/' || target.address.front() == '.';
    return is_path ? "unix:" + target.address : target.address;
  }
  if (const char* socket = std::getenv("KVSTRATA_SOCKET")) return std::string("unix:") + socket;
  const auto config = daemon::resolve({}, daemon::Environment::of_process());
  return "unix:" + (config ? config->server.socket : std::string("kvstrata.sock"));
}

Result<Client> connect(const Target& target) {
  ClientOptions options;
  options.address = address_of(target);
  options.name = "kvstrata-cli";
  options.connect_timeout = Milliseconds(500);
  options.request_timeout = Milliseconds(600'000);
  options.token = target.token;
  if (const char* token = std::getenv("KVSTRATA_TOKEN"); token != nullptr && target.token.empty()) {
    options.token = token;
  }
  auto client = Client::connect(options);
  if (!client && client.error().kind() == ErrorKind::unavailable) {
    return Error(ErrorKind::unavailable,
                 "no daemon answers at " + options.address + " (" + client.error().message() +
                     "); start one with `kvstrata serve`, or name another with --socket");
  }
  return client;
}

}  // namespace kvstrata::cli
