#include "daemon/config/environment.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kvstrata::daemon {

namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t file_system_bytes_of(const std::string& directory) {
  std::error_code ignored;
  fs::path path = fs::absolute(directory, ignored);
  while (!path.empty() && !fs::exists(path, ignored) && path != path.root_path()) {
    path = path.parent_path();
  }
  struct statvfs info{};
  if (statvfs(path.c_str(), &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.f_frsize) * info.f_blocks;
}

/// The number in a limit file; 0 for "max", for what can't be read, and for "no limit" of
/// version 1.
std::uint64_t read_limit(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return 0;
  std::uint64_t value = 0;
  const auto [rest, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (failure != std::errc{} || rest != word.data() + word.size()) return 0;
  return value >= std::uint64_t{1} << 60 ? 0 : value;
}

/// Limits of `group` and all its parents.
std::uint64_t tightest(const fs::path& root, std::string group, const char* file) {
  std::uint64_t limit = 0;
  for (int depth = 0; depth < 64; ++depth) {
    const std::uint64_t here = read_limit(root / fs::path(group).relative_path() / file);
    if (here != 0) limit = limit == 0 ? here : std::min(limit, here);
    if (group.empty() || group == "/") break;
    group = fs::path(group).parent_path().string();
  }
  return limit;
}

}  // namespace

std::uint64_t cgroup_memory_limit_bytes(const std::string& proc_cgroup, const std::string& root) {
  std::ifstream in(proc_cgroup);
  std::string line;
  std::uint64_t limit = 0;
  while (std::getline(in, line)) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::uint64_t here = 0;
    if (controllers.empty()) {
      here = tightest(root, group, "memory.max");
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      here = tightest(fs::path(root) / "memory", group, "memory.limit_in_bytes");
    }
    if (here != 0) limit = limit == 0 ? here : std::min(limit, here);
  }
  return limit;
}

Environment Environment::of_process() {
  Environment environment;
  environment.uid = geteuid();
  environment.runtime_directory = variable("XDG_RUNTIME_DIR");
  environment.data_home = variable("XDG_DATA_HOME");
  environment.home = variable("HOME");
  environment.ram_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  environment.cgroup_bytes = cgroup_memory_limit_bytes("/proc/self/cgroup", "/sys/fs/cgroup");
  environment.file_system_bytes = file_system_bytes_of;
  return environment;
}

}  // namespace kvstrata::daemon
