// The daemon's life: open, serve, drain. Called once, from main(), which thereby becomes the
// control thread.
#pragma once

#include "daemon/config/config.h"

namespace kvstrata::daemon {

/// Serves until SIGTERM or SIGINT and returns the code to exit with. `ready_fd` is written to when
/// clients can connect; -1: none. `config` is resolved.
int run_daemon(const Config& config, int ready_fd);

}  // namespace kvstrata::daemon
