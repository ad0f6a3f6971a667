#include "daemon/server/disk_watch.h"

#include <utility>

namespace kvstrata::daemon {

std::vector<DiskWatch::Line> DiskWatch::look(const storage::StoreTroubles& now, MonotonicTime at) {
  std::vector<Line> lines;
  if (!now.degraded.empty() && !std::exchange(degraded_, true)) {
    degraded_at_ = at;
    lines.push_back({true, "disk tier: takes no blocks: " + now.degraded +
                               "; memory goes on serving, and writing is tried again by itself"});
  }
  if (now.degraded.empty() && std::exchange(degraded_, false)) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at - degraded_at_);
    lines.push_back(
        {false, "disk tier: takes blocks again, after " + std::to_string(seconds.count()) + " s"});
  }
  if (at - damage_told_at_ >= damage_period || damage_told_at_ == MonotonicTime{}) {
    if (std::string damage = damage_since_told(now); !damage.empty()) {
      lines.push_back({true, "disk tier:" + damage + "; what is lost is a miss"});
      told_ = now;
      damage_told_at_ = at;
    }
  }
  return lines;
}

std::string DiskWatch::damage_since_told(const storage::StoreTroubles& now) const {
  std::string text;
  const auto add = [&text](std::uint64_t count, std::uint64_t told, const char* what) {
    if (count == told) return;
    text += (text.empty() ? " " : ", ") + std::to_string(count - told) + " " + what;
  };
  add(now.corrupt_records, told_.corrupt_records, "records failed their checks");
  add(now.read_errors, told_.read_errors, "reads failed");
  add(now.write_errors, told_.write_errors, "writes failed");
  add(now.condemned_segments, told_.condemned_segments, "segments were given up unsynced");
  add(now.lost_segments, told_.lost_segments, "segment files are gone or cut");
  return text;
}

}  // namespace kvstrata::daemon
