// A LogFolder keeps a repeating message from filling the log: the first of its kind is printed,
// those within the next period are counted, and the count is printed with the next one or when the
// period is over. Not thread-safe; log.cpp guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstrata/clock.h"

namespace kvstrata::daemon {

class LogFolder {
 public:
  static constexpr Milliseconds period{10'000};

  /// What to print now, if anything. Kinds are few and fixed: literals of the source.
  std::optional<std::string> offer(std::string_view kind, std::string_view message,
                                   MonotonicTime now);
  /// Lines for kinds whose period ended with messages not printed.
  struct Folded {
    std::string kind;
    std::string line;
  };
  std::vector<Folded> due(MonotonicTime now);

 private:
  struct Kind {
    MonotonicTime printed_at;
    std::uint64_t unprinted = 0;
    std::string last;
  };
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace kvstrata::daemon
