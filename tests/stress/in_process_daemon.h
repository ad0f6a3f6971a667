// An InProcessDaemon is a whole daemon (engine, server, its threads) inside the test's process, so
// that a sanitizer sees both sides. Clients connect by its socket. Lifetime: clients go first.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "daemon/engine/engine.h"
#include "daemon/server/control_loop.h"
#include "daemon/server/server.h"

namespace kvstrata::test {

class InProcessDaemon {
 public:
  /// Little memory and the smallest disk budget; `admission` as in the configuration.
  explicit InProcessDaemon(std::string admission);
  InProcessDaemon(const InProcessDaemon&) = delete;
  InProcessDaemon& operator=(const InProcessDaemon&) = delete;
  ~InProcessDaemon();

  std::string address() const { return "unix:" + directory_ + "/socket"; }

 private:
  std::string directory_;
  daemon::ControlLoop loop_;
  std::unique_ptr<daemon::Engine> engine_;
  std::unique_ptr<daemon::Server> server_;
  std::thread control_;
};

}  // namespace kvstrata::test
