// A DiskWatch tells the log when the disk tier stops or resumes taking blocks, and when it finds
// damage: a line a change, however many requests notice it. Control thread only.
#pragma once

#include <string>
#include <vector>

#include "kvstrata/clock.h"
#include "storage/store.h"

namespace kvstrata::daemon {

class DiskWatch {
 public:
  /// Damage that goes on is summed up once in so long.
  static constexpr Milliseconds damage_period{10'000};

  struct Line {
    bool is_warning = true;
    std::string text;
  };
  /// What is new since the last look.
  std::vector<Line> look(const storage::StoreTroubles& now, MonotonicTime at);

 private:
  std::string damage_since_told(const storage::StoreTroubles& now) const;

  bool degraded_ = false;
  MonotonicTime degraded_at_{};
  storage::StoreTroubles told_;
  MonotonicTime damage_told_at_{};
};

}  // namespace kvstrata::daemon
