// The Environment is what defaults are taken from: the user, the directories, the machine's sizes.
// A value, so that tests can bring their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvstrata::daemon {

struct Environment {
  std::uint32_t uid = 0;
  std::string runtime_directory;  ///< $XDG_RUNTIME_DIR, may be empty
  std::string data_home;          ///< $XDG_DATA_HOME, may be empty
  std::string home;               ///< $HOME, may be empty
  std::uint64_t ram_bytes = 0;
  std::uint64_t cgroup_bytes = 0;  ///< the tightest memory limit above this process; 0: none
  /// Size of the file system that holds (or would hold) a directory; 0: unknown.
  std::function<std::uint64_t(const std::string& directory)> file_system_bytes;

  static Environment of_process();

  /// RAM this process may use.
  std::uint64_t usable_ram_bytes() const {
    return cgroup_bytes != 0 && cgroup_bytes < ram_bytes ? cgroup_bytes : ram_bytes;
  }
};

/// The smallest memory limit of the cgroup (version 2 or 1) named in `proc_cgroup` ("/proc/self/
/// cgroup") and of all above it, below the mount `root` ("/sys/fs/cgroup"); 0: none.
std::uint64_t cgroup_memory_limit_bytes(const std::string& proc_cgroup, const std::string& root);

}  // namespace kvstrata::daemon
