// Numbers out of the daemon's statistics (doc/metrics.md). Stateless.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvstrata/client.h"

namespace kvstrata::test {

/// The number (true: 1) that `text`, as Client::stats() gives it, has under `name`. Names used here
/// are unique in the statistics. Aborts if there is none: a renamed counter must not pass as 0.
std::uint64_t number_in(std::string_view text, std::string_view name);

/// What the daemon is at.
struct Activity {
  bool encoding = false;
  bool reclaiming = false;
  std::uint64_t put_bytes = 0;
  std::uint64_t corrupt = 0;  ///< records and blocks that failed a check

  bool mid_work() const { return encoding || reclaiming; }
};
Result<Activity> activity_of(Client& client);

}  // namespace kvstrata::test
