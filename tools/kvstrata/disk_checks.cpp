#include "tools/kvstrata/disk_checks.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "storage/aside_files.h"
#include "tools/kvstrata/output.h"

namespace kvstrata::cli {

namespace {

using Level = Check::Level;

constexpr long cifs_magic = 0xFF534D42;  // not in linux/magic.h

// Of a block device's directory in /sys, or of the disk that a partition is part of.
std::string queue_attribute(const std::filesystem::path& device, const char* name) {
  for (const char* queue : {"queue", "../queue"}) {
    std::ifstream file(device / queue / name);
    std::string line;
    if (std::getline(file, line)) return line;
  }
  return "";
}

}  // namespace

Check check_file_system(const std::string& directory) {
  struct statfs fs{};
  if (statfs(directory.c_str(), &fs) != 0) {
    return {"file system", Level::bad, "can't look at " + directory,
            "choose another [store] directory"};
  }
  switch (fs.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
      return {"file system", Level::limited, directory + " lies in memory",
              "blocks survive the daemon, not the machine, and memory pays twice; put the store on "
              "a drive"};
    case NFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case cifs_magic:
      return {"file system", Level::limited, directory + " lies on a network file system",
              "its locks and syncs may promise more than they keep; put the store on a local "
              "drive"};
    case OVERLAYFS_SUPER_MAGIC:
      return {"file system", Level::limited, directory + " lies in a container's own layer",
              "blocks go when the container goes; mount a volume there"};
    default: return {"file system", Level::good, "local", ""};
  }
}

Check check_drive(const std::string& directory) {
  struct stat state{};
  const bool known = stat(directory.c_str(), &state) == 0;
  const std::string device = "/sys/dev/block/" + std::to_string(major(state.st_dev)) + ":" +
                             std::to_string(minor(state.st_dev));
  const std::string rotational = known ? queue_attribute(device, "rotational") : "";
  if (rotational.empty()) return {"drive", Level::good, "not a block device of this machine", ""};
  if (rotational == "1") {
    return {"drive", Level::limited, "calls itself a hard disk, as many virtual drives do",
            "if it is one, recomputing may be faster: use an SSD"};
  }
  std::string scheduler = queue_attribute(device, "scheduler");
  if (scheduler.empty()) scheduler = "none";
  if (scheduler.find("[none]") != std::string::npos || scheduler == "none") {
    return {"drive", Level::good, "solid state, no I/O scheduler", ""};
  }
  return {"drive", Level::good, "solid state, I/O scheduler " + scheduler,
          "with `none` (/sys/block/…/queue/scheduler) syncs wait less behind writes"};
}

Check check_left_aside(const std::string& directory) {
  std::error_code error;
  const bool is_store = std::filesystem::exists(directory + "/identity", error);
  if (!is_store) return {"lost index", Level::good, "no store here yet", ""};
  const storage::AsideFiles aside = storage::AsideFiles::scan(directory);
  if (aside.empty()) return {"lost index", Level::good, "none", ""};
  return {"lost index", Level::limited,
          human_bytes(aside.bytes()) + " lie aside since an index could not be opened",
          "`kvstrata recover` brings the blocks back while the daemon is stopped; the daemon gives "
          "them up as it needs their space"};
}

Check check_disk_tier(Client& client) {
  const auto text = client.stats();
  if (!text) return {"disk tier", Level::limited, text.error().message(), "ask as an admin tenant"};
  const auto stats = nlohmann::json::parse(*text, nullptr, false);
  if (!stats.is_object()) return {"disk tier", Level::bad, "statistics can't be read", ""};
  const auto number = [&](const char* name) {
    return stats.value(nlohmann::json::json_pointer("/store/" + std::string(name)),
                       std::uint64_t{0});
  };
  const std::string degraded =
      stats.value(nlohmann::json::json_pointer("/notes/degraded"), std::string());
  if (!degraded.empty()) {
    return {"disk tier", Level::bad, degraded, "until that is mended blocks live in memory only"};
  }
  const std::uint64_t corrupt = number("corrupt_records");
  const std::uint64_t errors = number("read_errors") + number("write_errors");
  if (corrupt + errors == 0) return {"disk tier", Level::good, "no errors since it started", ""};
  return {"disk tier", Level::limited,
          std::to_string(corrupt) + " damaged records and " + std::to_string(errors) +
              " failed transfers since it started",
          "`kvstrata verify` reads everything; look at the drive's own log (smartctl, dmesg)"};
}

}  // namespace kvstrata::cli
