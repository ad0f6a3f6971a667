// Reaching the daemon from the command line.
#pragma once

#include <string>

#include "kvstrata/client.h"
#include "tools/kvstrata/commands.h"

namespace kvstrata::cli {

/// The address a target stands for, "unix:..." or "tcp:...".
std::string address_of(const Target& target);

/// A connected client; `unavailable` with what to do when nobody listens.
Result<Client> connect(const Target& target);

}  // namespace kvstrata::cli
