#include "bench/common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace kvstrata::bench {

namespace {

int try_connect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) fail("socket path is too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

void fail(const std::string& message) {
  std::fprintf(stderr, "bench: %s\n", message.c_str());
  std::exit(1);
}

Process::Process(std::vector<std::string> command, const std::string& socket) {
  child_ = fork();
  if (child_ < 0) fail("fork failed");
  if (child_ == 0) {
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "bench: can't run %s: %s\n", arguments[0], std::strerror(errno));
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    const int fd = try_connect(socket);
    if (fd >= 0) {
      close(fd);
      return;
    }
    const bool ended = waitpid(child_, nullptr, WNOHANG) == child_;
    if (ended) child_ = -1;
    if (ended || std::chrono::steady_clock::now() > deadline) {
      fail(command.front() + " did not come up");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Process::stop() {
  if (child_ < 0) return;
  kill(child_, SIGTERM);
  waitpid(child_, nullptr, 0);
  child_ = -1;
}

Process::~Process() {
  stop();
}

int connect_unix(const std::string& path) {
  const int fd = try_connect(path);
  if (fd < 0) fail("can't connect to " + path);
  return fd;
}

void send_all(int fd, const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
    if (sent <= 0) fail("send failed");
    at += sent;
    count -= static_cast<std::size_t>(sent);
  }
}

void receive_all(int fd, void* bytes, std::size_t count) {
  char* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t received = recv(fd, at, count, 0);
    if (received <= 0) fail("the server closed the connection");
    at += received;
    count -= static_cast<std::size_t>(received);
  }
}

}  // namespace kvstrata::bench
