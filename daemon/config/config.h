// A Config is what an operator may set, all of it optional: one TOML file (doc/configuration.md),
// then command-line arguments over it, then defaults for what is still open.
// A value; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/environment.h"
#include "kvstrata/keys.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

inline constexpr std::size_t config_bytes_max = std::size_t{1} << 20;
inline constexpr std::size_t tenants_max = 1024;
inline constexpr std::size_t token_bytes_min = 16;
inline constexpr std::uint64_t disk_bytes_min = std::uint64_t{64} << 20;
inline constexpr std::uint64_t host_bytes_min = std::uint64_t{16} << 20;

/// Who may connect, and with what rights.
struct TenantConfig {
  std::string name;                     ///< 1..64 of letters, digits, '.', '_', '-'
  std::optional<Hash256> token_sha256;  ///< the token itself is never kept
  std::vector<std::uint32_t> uids;      ///< Unix peers that need no token
  bool admin = false;

  friend bool operator==(const TenantConfig&, const TenantConfig&) = default;
};

/// `[server]`
struct ServerConfig {
  std::string socket;  ///< path; empty: default
  std::uint32_t socket_mode = 0600;
  std::string listen;  ///< TCP address; empty: none
  bool is_public = false;
  std::uint32_t connections_max = 1024;
  std::uint64_t inline_bytes_max = std::uint64_t{256} << 20;  ///< payloads being received, in all
  std::uint32_t handshake_timeout_ms = 30'000;
  std::uint32_t stall_timeout_ms = 30'000;  ///< without progress in the middle of a message
  std::uint32_t drain_timeout_ms = 10'000;

  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

enum class StoreDevice : std::uint8_t { automatic, io_uring, psync };

/// Which blocks are written to disk.
enum class StoreAdmission : std::uint8_t { all, second_use };

/// `[store]`
struct StoreConfig {
  std::string directory;         ///< empty: default
  std::uint64_t disk_bytes = 0;  ///< 0: default
  StoreDevice device = StoreDevice::automatic;
  std::uint64_t segment_bytes = 0;  ///< 0: the store's choice
  StoreAdmission admission = StoreAdmission::all;

  friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

/// `[memory]`
struct MemoryConfig {
  std::uint64_t host_bytes = 0;  ///< 0: default
  bool lock = false;
  bool huge_pages = true;
  std::optional<std::uint64_t> prefault_bytes;  ///< none: default

  friend bool operator==(const MemoryConfig&, const MemoryConfig&) = default;
};

/// `[codec]`
struct CodecConfig {
  std::string at_rest = "static";  ///< "static", "linear" or "raw"

  friend bool operator==(const CodecConfig&, const CodecConfig&) = default;
};

enum class LogLevel : std::uint8_t { debug, info, warning, error };

/// `[log]`
struct LogConfig {
  LogLevel level = LogLevel::info;

  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

struct Config {
  ServerConfig server;
  StoreConfig store;
  MemoryConfig memory;
  CodecConfig codec;
  LogConfig log;
  std::vector<TenantConfig> tenants;
  std::vector<std::string> warnings;  ///< for the operator, not part of the file

  friend bool operator==(const Config&, const Config&) = default;
};

/// Errors name `source`, the line and the remedy. `source` is for people.
Result<Config> parse_config(std::string_view text, std::string_view source = "config");

/// Reads and parses a file of at most config_bytes_max bytes.
Result<Config> load_config(const std::string& path);

/// A file that parse_config() reads back as the same Config (warnings apart).
std::string to_toml(const Config& config);

/// Fills in every default and checks what depends on the machine or on several keys at once.
Result<Config> resolve(Config config, const Environment& environment);

/// An address that is not loopback needs `public` and a token. Part of both parse and resolve,
/// since arguments come in between.
Status validate_listen(const Config& config);

Result<LogLevel> parse_log_level(std::string_view name);
std::string_view to_string(LogLevel level);
Result<StoreDevice> parse_store_device(std::string_view name);
std::string_view to_string(StoreDevice device);
Result<StoreAdmission> parse_store_admission(std::string_view name);
std::string_view to_string(StoreAdmission admission);

/// SHA-256, as tokens are kept.
Hash256 sha256(ByteView bytes);

}  // namespace kvstrata::daemon
