// A CrashLoop kills a real daemon at random moments under traffic, starts it again and holds what
// it then answers against the journal of what it had acknowledged. doc/crash-testing.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "statistics.h"
#include "tests/e2e/daemon_process.h"
#include "worker.h"

namespace kvstrata::test {

struct CrashOptions {
  std::uint64_t loops = 5;
  std::uint64_t seed = 0;
  std::uint64_t life_bytes_max = 64_MiB;  ///< put before a kill, at most
};

struct CrashFigures {
  std::uint64_t loops = 0, durable_acks = 0, kills_mid_work = 0, restarts_not_emptied = 0;
  std::uint64_t client_deaths = 0;
  Verdicts verdicts;
  double ready_s = 0;  ///< worst start after a kill until HELLO and a GET were answered
  double seconds = 0;

  std::string json(std::uint64_t seed) const;
};

class CrashLoop {
 public:
  explicit CrashLoop(const CrashOptions& options);
  ~CrashLoop();

  CrashFigures run();

 private:
  void start_again();
  void check_all();
  void check_unborn(TenantClient& client);
  void live_and_die();
  Activity choose_moment(Client& client);
  void let_clients_die();
  void say(std::uint64_t loop, const Activity& last) const;

  CrashOptions options_;
  Random random_;
  Traffic traffic_;
  std::vector<Worker> workers_;
  std::filesystem::path configuration_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::string address_;
  std::uint64_t unborn_ = 0;  ///< values that dying clients began, named by their number
  Activity last_;             ///< just before the last kill
  CrashFigures figures_;
};

}  // namespace kvstrata::test
