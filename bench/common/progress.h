// A line that tells how far long work is: rewritten in place on a terminal, a line per tenth
// elsewhere.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace kvstrata::bench {

class Progress {
 public:
  Progress(std::string what, std::size_t total) : what_(std::move(what)), total_(total) {}

  void at(std::size_t done) {
    const std::size_t tenth = done * 10 / total_;
    if (!on_terminal_ && tenth == tenth_) return;
    tenth_ = tenth;
    std::printf("%s  %s: %zu of %zu%s", on_terminal_ ? "\r" : "", what_.c_str(), done, total_,
                on_terminal_ && done < total_ ? "" : "\n");
    std::fflush(stdout);
  }

 private:
  std::string what_;
  std::size_t total_;
  std::size_t tenth_ = 0;
  bool on_terminal_ = isatty(STDOUT_FILENO) == 1;
};

}  // namespace kvstrata::bench
