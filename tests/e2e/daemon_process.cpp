#include "daemon_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace kvstrata::test {

namespace {

constexpr int ready_timeout_ms = 60'000;

std::string program() {
  const char* path = std::getenv("KVSTRATAD");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE_MESSAGE(path != nullptr, "KVSTRATAD names the daemon to test");
  return path;
}

// In a child: becomes the daemon.
[[noreturn]] void become(std::vector<std::string> command) {
  std::vector<char*> raw;
  for (std::string& word : command) raw.push_back(word.data());
  raw.push_back(nullptr);
  ::execv(raw[0], raw.data());
  ::_exit(127);
}

}  // namespace

DaemonProcess::DaemonProcess(std::vector<std::string> arguments)
    : arguments_(std::move(arguments)) {
  directory_ = std::filesystem::temp_directory_path() / "kvstrata-e2e-XXXXXX";
  REQUIRE(::mkdtemp(directory_.data()) != nullptr);
  start();
}

DaemonProcess::~DaemonProcess() {
  kill_hard();
  std::filesystem::remove_all(directory_);
}

void DaemonProcess::start() {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  std::vector<std::string> command = {program(), "--data",     data(), "--socket",
                                      socket(),  "--ready-fd", "3"};
  const std::pair<std::string, std::string> defaults[] = {
      {"--host-memory", "64MiB"}, {"--disk", "256MiB"}, {"--log-level", "warning"}};
  for (const auto& [name, value] : defaults) {
    if (std::ranges::count(arguments_, name) == 0) command.insert(command.end(), {name, value});
  }
  command.insert(command.end(), arguments_.begin(), arguments_.end());
  child_ = ::fork();
  REQUIRE(child_ >= 0);
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is interrupted leaves no daemon behind
    ::dup2(ready[1], 3);  // clears FD_CLOEXEC, unless it is 3 already
    if (ready[1] == 3) ::fcntl(3, F_SETFD, 0);
    become(command);
  }
  ::close(ready[1]);
  pollfd wanted{ready[0], POLLIN, 0};
  char word[6] = {};
  const bool came = ::poll(&wanted, 1, ready_timeout_ms) == 1;
  const bool is_ready = came && ::read(ready[0], word, sizeof word) == 6;
  ::close(ready[0]);
  REQUIRE_MESSAGE(is_ready, "the daemon did not get ready");
}

void DaemonProcess::kill_hard() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
  child_ = -1;
}

int DaemonProcess::stop() {
  REQUIRE(child_ > 0);
  ::kill(child_, SIGTERM);
  int status = 0;
  REQUIRE(::waitpid(child_, &status, 0) == child_);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Client DaemonProcess::connect(bool shared_memory, const std::string& token) const {
  ClientOptions options;
  options.address = "unix:" + socket();
  options.shared_memory = shared_memory;
  options.token = token;
  options.connect_timeout = Milliseconds(20'000);
  options.request_timeout = Milliseconds(60'000);
  auto client = Client::connect(options);
  REQUIRE_MESSAGE(client.ok(), (client ? "" : client.error().message()));
  return std::move(*client);
}

Refusal run_daemon(const std::vector<std::string>& arguments) {
  int said[2];
  REQUIRE(::pipe(said) == 0);
  std::vector<std::string> command = {program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(said[1], STDERR_FILENO);
    ::close(said[0]);
    ::close(said[1]);
    become(command);
  }
  ::close(said[1]);
  Refusal refusal;
  char piece[512];
  for (ssize_t got = 0; (got = ::read(said[0], piece, sizeof piece)) > 0;) {
    refusal.said.append(piece, static_cast<std::size_t>(got));
  }
  ::close(said[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  refusal.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return refusal;
}

}  // namespace kvstrata::test
