// in_process(): runs a function in a child, for what must not happen in the test itself: giving up
// privileges, lowering limits, aborting, being a client.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

namespace kvstrata::test {

struct ProcessEnd {
  int exit_code = -1;  ///< -1: ended by a signal
  int signal = 0;
};

/// `run` returns the exit code; nothing of the test's is torn down in the child.
inline ProcessEnd in_process(const std::function<int()>& run) {
  std::fflush(nullptr);  // or the child prints it again
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = 0;
  ProcessEnd end;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return end;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

inline bool aborts(const std::function<void()>& run) {
  return in_process([&run] {
           std::signal(SIGABRT, SIG_DFL);  // not the test framework's handler
           (void)::close(STDERR_FILENO);
           run();
           return 0;
         }).signal == SIGABRT;
}

}  // namespace kvstrata::test
