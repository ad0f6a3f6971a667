#include "daemon/config/config.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/config/listen_address.h"
#include "daemon/config/sizes.h"

namespace kvstrata::daemon {

namespace {

constexpr std::array log_levels = {
    std::pair{LogLevel::debug, "debug"}, std::pair{LogLevel::info, "info"},
    std::pair{LogLevel::warning, "warning"}, std::pair{LogLevel::error, "error"}};
constexpr std::array store_devices = {std::pair{StoreDevice::automatic, "auto"},
                                      std::pair{StoreDevice::io_uring, "io_uring"},
                                      std::pair{StoreDevice::psync, "psync"}};
constexpr std::array store_admissions = {std::pair{StoreAdmission::all, "all"},
                                         std::pair{StoreAdmission::second_use, "second-use"}};

template <typename Names>
auto parse_name(const Names& names, std::string_view name)
    -> Result<typename Names::value_type::first_type> {
  std::string accepted;
  for (const auto& [value, text] : names) {
    if (name == text) return value;
    accepted += accepted.empty() ? "\"" : ", \"";
    accepted += std::string(text) + "\"";
  }
  return Error(ErrorKind::invalid_argument,
               "\"" + std::string(name.substr(0, 40)) + "\" is not one of " + accepted);
}

template <typename Names, typename Value>
std::string_view name_of(const Names& names, Value value) {
  for (const auto& [known, text] : names) {
    if (known == value) return text;
  }
  KV_CHECK(false, "an enumerator without a name");
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  return parse_name(log_levels, name);
}
std::string_view to_string(LogLevel level) {
  return name_of(log_levels, level);
}
Result<StoreDevice> parse_store_device(std::string_view name) {
  return parse_name(store_devices, name);
}
std::string_view to_string(StoreDevice device) {
  return name_of(store_devices, device);
}
Result<StoreAdmission> parse_store_admission(std::string_view name) {
  return parse_name(store_admissions, name);
}
std::string_view to_string(StoreAdmission admission) {
  return name_of(store_admissions, admission);
}

Hash256 sha256(ByteView bytes) {
  Hash256 digest;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.bytes.data()),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return digest;
}

Status validate_listen(const Config& config) {
  if (config.server.listen.empty()) return {};
  KV_ASSIGN(const ListenAddress address, parse_listen_address(config.server.listen));
  if (address.loopback) return {};
  if (!config.server.is_public) {
    return Error(
        ErrorKind::permission_denied,
        "listening on " + config.server.listen +
            " would open the cache to other machines; set server.public = true to mean it");
  }
  const bool has_token =
      std::any_of(config.tenants.begin(), config.tenants.end(),
                  [](const auto& tenant) { return tenant.token_sha256.has_value(); });
  if (!has_token) {
    return Error(ErrorKind::permission_denied,
                 "listening on " + config.server.listen +
                     " needs at least one [[tenants]] entry with a token or token_sha256");
  }
  return {};
}

}  // namespace kvstrata::daemon
