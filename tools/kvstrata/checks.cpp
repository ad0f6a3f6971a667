#include "tools/kvstrata/checks.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codec/codec.h"
#include "daemon/config/config.h"
#include "hostmem/device_arena.h"
#include "storage/device/device.h"
#include "tools/kvstrata/connect.h"
#include "tools/kvstrata/disk_checks.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

using Level = Check::Level;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : human_bytes(limit);
}

void check_daemon(const Target& target, std::vector<Check>& checks) {
  auto client = connect(target);
  if (!client) {
    checks.push_back({"daemon", Level::limited, "none answers at " + address_of(target),
                      "start one with `kvstrata serve`, or name its socket with --socket"});
    return;
  }
  checks.push_back({"daemon", Level::good,
                    client->server().server + " answers at " + address_of(target) + ", tenant " +
                        client->server().tenant,
                    ""});
  checks.push_back(check_disk_tier(*client));
}

// The directory the data would live in, or the nearest one above it that exists.
std::filesystem::path existing(std::filesystem::path path) {
  while (!path.empty() && !std::filesystem::exists(path)) {
    if (path == path.parent_path()) break;
    path = path.parent_path();
  }
  return path;
}

Check check_space(const std::string& directory) {
  struct statvfs fs{};
  if (statvfs(existing(directory).c_str(), &fs) != 0) {
    return {"disk space", Level::bad, "can't look at " + directory,
            "choose another [store] directory"};
  }
  const std::uint64_t free = std::uint64_t{fs.f_bavail} * fs.f_frsize;
  const std::uint64_t all = std::uint64_t{fs.f_blocks} * fs.f_frsize;
  const bool is_tight = free < 1_GiB;
  return {
      "disk space", is_tight ? Level::limited : Level::good,
      human_bytes(free) + " of " + human_bytes(all) + " free for " + directory,
      is_tight ? "less than 1 GiB is little for a cache; choose another [store] directory" : ""};
}

Check check_writable(const std::string& directory) {
  const std::filesystem::path place = existing(directory);
  if (access(place.c_str(), W_OK | X_OK) == 0) {
    return {"data directory", Level::good, directory, ""};
  }
  return {"data directory", Level::bad, "this user may not write in " + place.string(),
          "run as its owner, or set [store] directory"};
}

Check check_device(const std::string& directory) {
  storage::DeviceOptions options;
  options.directory = existing(directory);
  std::string reason;
  const auto device = storage::open_device(options, &reason);
  if (!device)
    return {"disk I/O", Level::bad, device.error().message(), "choose another directory"};
  if (reason.empty()) return {"disk I/O", Level::good, (*device)->name() + " with O_DIRECT", ""};
  return {
      "disk I/O", Level::limited, (*device)->name() + ": " + reason,
      "works, but slower; allow io_uring (seccomp, sysctl kernel.io_uring_disabled=0) and use a "
      "file system with O_DIRECT"};
}

Check check_memlock(std::uint64_t host_bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool is_enough = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= host_bytes;
  return {"locked memory", is_enough ? Level::good : Level::limited,
          "limit " + limit_text(limit.rlim_cur) + ", host tier " + human_bytes(host_bytes),
          is_enough ? ""
                    : "host memory stays unpinned and I/O buffers may go unregistered; raise "
                      "`ulimit -l` (LimitMEMLOCK=) to change that"};
}

Check check_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const bool is_enough = limit.rlim_max >= 4096;
  return {"open files", is_enough ? Level::good : Level::limited,
          "limit " + std::to_string(limit.rlim_max),
          is_enough ? "" : "few connections and index files at once; raise `ulimit -n` to 4096"};
}

Check check_memory(std::uint64_t host_bytes, const daemon::Environment& machine) {
  const std::uint64_t usable = machine.usable_ram_bytes();
  const bool fits = host_bytes <= usable / 2;
  std::string finding = "host tier " + human_bytes(host_bytes) + " of " + human_bytes(usable) +
                        (usable < machine.ram_bytes ? " (container limit)" : "");
  return {"memory", fits ? Level::good : Level::limited, std::move(finding),
          fits ? "" : "shared memory counts to the container; keep [memory] size under half"};
}

Check check_huge_pages() {
  const std::string text = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const bool is_on = text.find("[advise]") != std::string::npos ||
                     text.find("[always]") != std::string::npos ||
                     text.find("[within_size]") != std::string::npos;
  return {"huge pages", is_on ? Level::good : Level::limited,
          text.empty() ? "the kernel has none for shared memory" : "shmem: " + text,
          is_on ? ""
                : "works without; `echo advise > "
                  "/sys/kernel/mm/transparent_hugepage/shmem_enabled` saves page faults"};
}

Check check_frame_pages() {
  const std::string text = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool is_on =
      text.find("[madvise]") != std::string::npos || text.find("[always]") != std::string::npos;
  return {"I/O buffers", is_on ? Level::good : Level::limited,
          is_on ? "in huge pages" : "in pages of 4 KiB",
          is_on ? ""
                : "works, but disk I/O costs several times the CPU time; `echo madvise > "
                  "/sys/kernel/mm/transparent_hugepage/enabled`"};
}

Check check_simd() {
  switch (codec::best_simd_level()) {
    case codec::SimdLevel::avx512: return {"SIMD", Level::good, "AVX-512", ""};
    case codec::SimdLevel::avx2: return {"SIMD", Level::good, "AVX2", ""};
    case codec::SimdLevel::scalar: break;
  }
  return {"SIMD", Level::limited, "none used: codecs run their scalar code",
          "use a CPU with AVX2, and unset KVSTRATA_SIMD"};
}

Check check_gpu() {
  std::string reason;
  const auto arenas = hostmem::discover_device_arenas(reason);
  if (!arenas.empty()) return {"GPU", Level::good, arenas.front()->device_name(), ""};
  return {"GPU", Level::good, "none used: " + reason, ""};
}

}  // namespace

std::vector<Check> check_machine(const DoctorOptions& options) {
  daemon::Config wanted;
  wanted.store.directory = options.data_directory;
  const daemon::Environment machine = daemon::Environment::of_process();
  const auto config = daemon::resolve(wanted, machine);
  std::vector<Check> checks;
  check_daemon(options.target, checks);
  if (!config) {
    checks.push_back(
        {"defaults", Level::bad, config.error().message(), "write a configuration file"});
    return checks;
  }
  const std::string& directory = config->store.directory;
  checks.push_back(check_writable(directory));
  checks.push_back(check_space(directory));
  const std::string place = existing(directory);
  checks.push_back(check_file_system(place));
  checks.push_back(check_drive(place));
  checks.push_back(check_left_aside(directory));
  checks.push_back(check_device(directory));
  checks.push_back(check_memory(config->memory.host_bytes, machine));
  checks.push_back(check_memlock(config->memory.host_bytes));
  checks.push_back(check_files());
  checks.push_back(check_huge_pages());
  checks.push_back(check_frame_pages());
  checks.push_back(check_simd());
  checks.push_back(check_gpu());
  return checks;
}

}  // namespace kvstrata::cli
