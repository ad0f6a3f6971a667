// A Process is a server that a benchmark started for itself: it listens on a Unix socket in a
// directory of its own and ends with the object.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace kvstrata::bench {

class Process {
 public:
  /// Starts `command` and waits until `socket` accepts a connection; exits the benchmark with a
  /// message if it does not within 30 s.
  Process(std::vector<std::string> command, const std::string& socket);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  void stop();

 private:
  pid_t child_ = -1;
};

/// A connected blocking stream socket; exits with a message on failure.
int connect_unix(const std::string& path);

/// The two halves of every request in a benchmark that compares servers on the same loop.
void send_all(int fd, const void* bytes, std::size_t count);
void receive_all(int fd, void* bytes, std::size_t count);

[[noreturn]] void fail(const std::string& message);

}  // namespace kvstrata::bench
