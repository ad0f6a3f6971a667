// resolve(): what is used where the operator said nothing. doc/configuration.md lists the same.
#include <sys/un.h>

#include <algorithm>

#include "daemon/config/config.h"
#include "daemon/config/sizes.h"

namespace kvstrata::daemon {

namespace {

constexpr std::uint64_t disk_bytes_default_max = 50_GiB;
constexpr std::uint64_t prefault_bytes_default_max = 1_GiB;

bool absolute(const std::string& path) {
  return path.starts_with('/');
}

Result<std::string> default_directory(const Environment& environment) {
  if (environment.uid == 0) return std::string("/var/lib/kvstrata");
  if (absolute(environment.data_home)) return environment.data_home + "/kvstrata";
  if (absolute(environment.home)) return environment.home + "/.local/share/kvstrata";
  return Error(ErrorKind::invalid_argument,
               "no place for the store: neither XDG_DATA_HOME nor HOME is set; "
               "set store.directory or give --data DIR");
}

Status resolve_store(StoreConfig& store, const Environment& environment) {
  if (store.directory.empty()) {
    KV_ASSIGN(store.directory, default_directory(environment));
  }
  if (store.disk_bytes != 0) return {};
  const std::uint64_t whole =
      environment.file_system_bytes ? environment.file_system_bytes(store.directory) : 0;
  store.disk_bytes = std::clamp(whole / 10, disk_bytes_min, disk_bytes_default_max);
  store.disk_bytes &= ~(1_MiB - 1);
  return {};
}

Status resolve_memory(MemoryConfig& memory, const Environment& environment) {
  const std::uint64_t usable = environment.usable_ram_bytes();
  if (memory.host_bytes == 0) {
    memory.host_bytes = std::max(usable / 4, host_bytes_min) & ~(1_MiB - 1);
  } else if (usable != 0 && memory.host_bytes > usable) {
    return Error(ErrorKind::invalid_argument,
                 "memory.host = " + format_size(memory.host_bytes) + " is more than the " +
                     std::to_string(usable >> 20) + "MiB this machine or its cgroup has; lower it");
  }
  if (!memory.prefault_bytes) {
    memory.prefault_bytes =
        std::min(memory.host_bytes / 4, prefault_bytes_default_max) & ~(1_MiB - 1);
  }
  *memory.prefault_bytes = std::min(*memory.prefault_bytes, memory.host_bytes);
  return {};
}

Status resolve_server(ServerConfig& server, const std::string& store_directory,
                      const Environment& environment) {
  if (server.socket.empty()) {
    server.socket = absolute(environment.runtime_directory)
                        ? environment.runtime_directory + "/kvstrata.sock"
                        : store_directory + "/kvstrata.sock";
  }
  if (server.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error(ErrorKind::invalid_argument,
                 "the socket path " + server.socket + " is longer than the system's " +
                     std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                     " bytes; set a shorter server.socket");
  }
  return {};
}

}  // namespace

Result<Config> resolve(Config config, const Environment& environment) {
  KV_TRY(resolve_store(config.store, environment));
  KV_TRY(resolve_memory(config.memory, environment));
  KV_TRY(resolve_server(config.server, config.store.directory, environment));
  KV_TRY(validate_listen(config));
  return config;
}

}  // namespace kvstrata::daemon
