// A DaemonProcess is a real kvstratad on a directory of its own, to be killed and started again.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "kvstrata/client.h"

namespace kvstrata::test {

class DaemonProcess {
 public:
  /// `arguments` come before what a test daemon has otherwise: little memory and disk.
  explicit DaemonProcess(std::vector<std::string> arguments = {});
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;
  ~DaemonProcess();

  void start();
  void kill_hard();  ///< SIGKILL
  int stop();        ///< SIGTERM; the exit code
  bool running() const { return child_ > 0; }

  const std::string& directory() const { return directory_; }
  std::string data() const { return directory_ + "/data"; }
  std::string socket() const { return directory_ + "/kvstrata.sock"; }

  /// A client of the daemon; the test fails if it can't connect.
  Client connect(bool shared_memory = true, const std::string& token = "") const;

 private:
  std::vector<std::string> arguments_;
  std::string directory_;
  pid_t child_ = -1;
};

/// What a second kvstratad with these arguments answers: its exit code and what it said.
struct Refusal {
  int exit_code = 0;
  std::string said;
};
Refusal run_daemon(const std::vector<std::string>& arguments);

}  // namespace kvstrata::test
