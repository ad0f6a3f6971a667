#include "tests/simulation/watched.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "kvstrata/check.h"

namespace kvstrata::simulation {

namespace {

/// A child that does jobs from `first` on and tells of each by a line.
class Child {
 public:
  Child(std::uint64_t first, std::uint64_t count, const Jobs& jobs) {
    int ends[2];
    KV_CHECK(pipe(ends) == 0, "a pipe");
    std::fflush(stdout);
    pid_ = fork();
    KV_CHECK(pid_ >= 0, "a child process");
    if (pid_ == 0) {
      close(ends[0]);
      work(first, count, jobs, ends[1]);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Next { line, end, silence };
  Next next(int patience_ms, std::string& line) {
    for (;;) {
      const std::size_t end = text_.find('\n');
      if (end != std::string::npos) {
        line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return Next::line;
      }
      pollfd wanted{from_, POLLIN, 0};
      if (poll(&wanted, 1, patience_ms) == 0) return Next::silence;
      char more[4096];
      const ssize_t bytes = ::read(from_, more, sizeof more);
      if (bytes <= 0) return Next::end;
      text_.append(more, static_cast<std::size_t>(bytes));
    }
  }

 private:
  [[noreturn]] static void work(std::uint64_t first, std::uint64_t count, const Jobs& jobs,
                                int to) {
    for (std::uint64_t i = first; i < count; ++i) {
      const std::string line = jobs.job(i) + "\n";
      std::fflush(stdout);
      for (std::size_t sent = 0; sent < line.size();) {
        const ssize_t bytes = ::write(to, line.data() + sent, line.size() - sent);
        if (bytes <= 0) _exit(0);
        sent += static_cast<std::size_t>(bytes);
      }
    }
    std::exit(0);  // with what sanitizers have to say at the end
  }

  pid_t pid_ = 0;
  int from_ = -1;
  std::string text_;
};

}  // namespace

Watched run_watched(std::uint64_t count, int patience_ms, const Jobs& jobs) {
  Watched watched;
  std::uint64_t at = 0;
  while (at < count) {
    Child child(at, count, jobs);
    std::string line;
    Child::Next next = child.next(patience_ms, line);
    for (; next == Child::Next::line; next = child.next(patience_ms, line)) {
      ++watched.done;
      if (!jobs.told(at++, line)) return watched;
    }
    if (at >= count) break;
    const bool hang = next == Child::Next::silence;
    ++(hang ? watched.hangs : watched.crashes);
    ++watched.done;
    if (!jobs.lost(at++, hang ? "does not end" : "ended the process")) return watched;
  }
  return watched;
}

}  // namespace kvstrata::simulation
