// parse_config() and load_config(). The only file that knows the TOML library.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
// toml++ 3.3 asserts on some malformed keys ("[[[") that it reports as errors just after.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "daemon/config/config.h"
#include "daemon/config/listen_address.h"
#include "daemon/config/nearest.h"
#include "daemon/config/sizes.h"

namespace kvstrata::daemon {

namespace {

/// Where an error is reported: the first one wins and ends the reading.
class Report {
 public:
  explicit Report(std::string_view source) : source_(source) {}

  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  void fail(const toml::source_region& where, const std::string& message,
            ErrorKind kind = ErrorKind::invalid_argument) {
    if (error_) return;
    const std::string line = where.begin ? ":" + std::to_string(where.begin.line) : "";
    error_.emplace(kind, source_ + line + ": " + message);
  }

 private:
  std::string source_;
  std::optional<Error> error_;
};

/// One table of the file. Getters leave their target alone where the key is absent; a key nobody
/// asked for is an error in finish().
class Section {
 public:
  Section(Report& report, std::string name, const toml::table& table)
      : report_(report), name_(std::move(name)), table_(table) {}

  const toml::node* find(std::string_view key) {
    known_.emplace_back(key);
    return report_.failed() ? nullptr : table_.get(key);
  }

  void fail(const toml::node& node, std::string_view key, const std::string& message) {
    report_.fail(node.source(), path(key) + ": " + message);
  }

  const std::string* find_text(std::string_view key, std::size_t bytes_max) {
    const toml::node* node = find(key);
    if (node == nullptr) return nullptr;
    const toml::value<std::string>* text = node->as_string();
    if (text == nullptr) {
      fail(*node, key, "write a string in quotes");
    } else if (text->get().size() > bytes_max) {
      fail(*node, key, "longer than " + std::to_string(bytes_max) + " bytes");
    } else if (text->get().find('\0') != std::string::npos) {
      fail(*node, key, "holds a zero byte");
    } else {
      return &text->get();
    }
    return nullptr;
  }

  /// A string that `parse` (string -> Result<T>) turns into the target.
  template <typename T, typename Parse>
  void parsed(std::string_view key, T& target, Parse parse) {
    const std::string* text = find_text(key, 4096);
    if (text == nullptr) return;
    auto value = parse(*text);
    if (!value) return fail(*table_.get(key), key, value.error().message());
    target = std::move(value).value();
  }

  void text(std::string_view key, std::string& target, std::size_t bytes_max) {
    if (const std::string* value = find_text(key, bytes_max)) target = *value;
  }

  void boolean(std::string_view key, bool& target) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_boolean()) return fail(*node, key, "write true or false");
    target = node->as_boolean()->get();
  }

  template <typename T>
  void number(std::string_view key, T& target, std::int64_t min, std::int64_t max) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_integer() || node->as_integer()->get() < min || node->as_integer()->get() > max) {
      return fail(
          *node, key,
          "write a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    }
    target = static_cast<T>(node->as_integer()->get());
  }

  /// "50GiB", or a whole number of bytes.
  template <typename T>
  void size(std::string_view key, T& target, std::uint64_t min, std::uint64_t max) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    std::uint64_t bytes = 0;
    if (node->is_string()) {
      const auto parsed_size = parse_size(node->as_string()->get());
      if (!parsed_size) return fail(*node, key, parsed_size.error().message());
      bytes = *parsed_size;
    } else if (node->is_integer() && node->as_integer()->get() >= 0) {
      bytes = static_cast<std::uint64_t>(node->as_integer()->get());
    } else {
      return fail(*node, key, "write a size, as in \"50GiB\"");
    }
    if (bytes < min || bytes > max) {
      return fail(*node, key, "must be from " + format_size(min) + " to " + format_size(max));
    }
    target = bytes;
  }

  void finish() {
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string_view near = nearest_name(name, known_);
      report_.fail(key.source(), "unknown key " + path(name.substr(0, 64)) +
                                     (near.empty() ? "" : "; did you mean " + path(near) + "?"));
    }
  }

 private:
  std::string path(std::string_view key) const {
    return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
  }

  Report& report_;
  std::string name_;
  const toml::table& table_;
  std::vector<std::string> known_;
};

Result<std::uint32_t> parse_socket_mode(std::string_view text) {
  if (text == "0600" || text == "600") return 0600u;
  if (text == "0660" || text == "660") return 0660u;
  if (text == "0666" || text == "666") return 0666u;
  return Error(ErrorKind::invalid_argument, "write \"0600\", \"0660\" or \"0666\"");
}

Result<std::string> parse_at_rest(std::string_view text) {
  if (text == "static" || text == "raw") return std::string(text);
  return Error(ErrorKind::invalid_argument, "write \"static\" or \"raw\"");
}

Result<std::string> parse_tenant_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), allowed)) {
    return Error(ErrorKind::invalid_argument, "write 1 to 64 letters, digits, '.', '_' or '-'");
  }
  return std::string(text);
}

Result<Hash256> parse_token(std::string_view text) {
  if (text.size() < token_bytes_min) {
    return Error(ErrorKind::invalid_argument,
                 "shorter than " + std::to_string(token_bytes_min) +
                     " bytes; `openssl rand -hex 32` makes a good one");
  }
  return sha256(as_bytes(text));
}

Result<std::string> parse_listen_text(std::string_view text) {
  KV_TRY(parse_listen_address(text));
  return std::string(text);
}

void read_server(Section section, ServerConfig& server) {
  section.text("socket", server.socket, 107);
  section.parsed("socket_mode", server.socket_mode, parse_socket_mode);
  section.parsed("listen", server.listen, parse_listen_text);
  section.boolean("public", server.is_public);
  section.number("connections_max", server.connections_max, 1, 65'536);
  section.size("inline_memory", server.inline_bytes_max, 1_MiB, 1024_GiB);
  section.number("handshake_timeout_ms", server.handshake_timeout_ms, 100, 600'000);
  section.number("stall_timeout_ms", server.stall_timeout_ms, 100, 3'600'000);
  section.number("drain_timeout_ms", server.drain_timeout_ms, 0, 600'000);
  section.finish();
}

void read_store(Section section, StoreConfig& store) {
  section.text("directory", store.directory, 3000);
  section.size("disk", store.disk_bytes, disk_bytes_min, 1024 * 1024_GiB);
  section.parsed("device", store.device, parse_store_device);
  section.size("segment", store.segment_bytes, 4_MiB, 256_MiB);
  if (store.segment_bytes % 4096 != 0) {
    section.fail(*section.find("segment"), "segment", "must be a multiple of 4096 bytes");
  }
  section.finish();
}

void read_memory(Section section, MemoryConfig& memory) {
  section.size("host", memory.host_bytes, host_bytes_min, 64 * 1024_GiB);
  section.boolean("lock", memory.lock);
  section.boolean("huge_pages", memory.huge_pages);
  section.size("prefault", memory.prefault_bytes, 0, 64 * 1024_GiB);
  section.finish();
}

void read_codec(Section section, CodecConfig& codec) {
  section.parsed("at_rest", codec.at_rest, parse_at_rest);
  section.finish();
}

void read_log(Section section, LogConfig& log) {
  section.parsed("level", log.level, parse_log_level);
  section.finish();
}

void read_uids(Section& section, std::vector<std::uint32_t>& uids) {
  const toml::node* node = section.find("uids");
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  if (list == nullptr || list->size() > 256) {
    return section.fail(*node, "uids", "write a list of at most 256 user ids, as in [1000]");
  }
  for (const toml::node& item : *list) {
    if (!item.is_integer() || item.as_integer()->get() < 0 ||
        item.as_integer()->get() > 0xffff'fffe) {
      return section.fail(item, "uids", "write user ids, as in [1000]");
    }
    uids.push_back(static_cast<std::uint32_t>(item.as_integer()->get()));
  }
}

void read_tenant(Report& report, const toml::table& table, Config& config) {
  Section section(report, "tenants", table);
  TenantConfig tenant;
  section.parsed("name", tenant.name, parse_tenant_name);
  section.parsed("token", tenant.token_sha256, parse_token);
  section.parsed("token_sha256", tenant.token_sha256, Hash256::from_hex);
  read_uids(section, tenant.uids);
  section.boolean("admin", tenant.admin);
  section.finish();

  if (tenant.name.empty()) report.fail(table.source(), "tenants: an entry without a name");
  if (table.contains("token") && table.contains("token_sha256")) {
    report.fail(table.source(), "tenants: give token or token_sha256, not both");
  }
  if (!tenant.token_sha256 && tenant.uids.empty()) {
    report.fail(table.source(), "tenants: \"" + tenant.name +
                                    "\" could never connect; give it a token_sha256 or uids");
  }
  for (const TenantConfig& other : config.tenants) {
    if (other.name == tenant.name) {
      report.fail(table.source(), "tenants: \"" + tenant.name + "\" is there twice");
    }
    if (tenant.token_sha256 && other.token_sha256 == tenant.token_sha256) {
      report.fail(table.source(), "tenants: \"" + tenant.name + "\" and \"" + other.name +
                                      "\" have the same token");
    }
    for (const std::uint32_t uid : tenant.uids) {
      if (std::find(other.uids.begin(), other.uids.end(), uid) == other.uids.end()) continue;
      report.fail(table.source(), "tenants: user id " + std::to_string(uid) + " belongs to \"" +
                                      other.name + "\" already");
    }
  }
  config.tenants.push_back(std::move(tenant));
}

void read_tenants(Report& report, const toml::node& node, Config& config) {
  const toml::array* list = node.as_array();
  const auto is_table = [](const toml::node& item) { return item.is_table(); };
  if (list == nullptr || list->size() > tenants_max ||
      !std::all_of(list->begin(), list->end(), is_table)) {
    return report.fail(node.source(), "tenants: write at most " + std::to_string(tenants_max) +
                                          " tables that begin with [[tenants]]");
  }
  for (const toml::node& item : *list) read_tenant(report, *item.as_table(), config);
}

void read_root(Report& report, const toml::table& root, Config& config) {
  Section top(report, "", root);
  const auto section = [&](std::string_view name, auto read, auto& target) {
    const toml::node* node = top.find(name);
    if (node == nullptr) return;
    if (!node->is_table())
      return top.fail(*node, name, "write a table, [" + std::string(name) + "]");
    read(Section(report, std::string(name), *node->as_table()), target);
  };
  section("server", read_server, config.server);
  section("store", read_store, config.store);
  section("memory", read_memory, config.memory);
  section("codec", read_codec, config.codec);
  section("log", read_log, config.log);
  if (const toml::node* node = top.find("tenants")) read_tenants(report, *node, config);
  top.finish();

  if (report.failed()) return;
  if (const Status allowed = validate_listen(config); !allowed) {
    report.fail(root["server"]["listen"].node()->source(),
                "server.listen: " + allowed.error().message(), allowed.error().kind());
  }
}

}  // namespace

Result<Config> parse_config(std::string_view text, std::string_view source) {
  Report report(source);
  if (text.size() > config_bytes_max) {
    return Error(ErrorKind::too_large, std::string(source) + ": larger than 1 MiB");
  }
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    report.fail(parsed.error().source(), std::string(parsed.error().description()));
    return report.error();
  }
  Config config;
  read_root(report, parsed.table(), config);
  if (report.failed()) return report.error();
  return config;
}

Result<Config> load_config(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return error_from_errno(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return Error(ErrorKind::invalid_argument, path + ": not a regular file");
  }
  if (static_cast<std::uint64_t>(info.st_size) > config_bytes_max) {
    return Error(ErrorKind::too_large, path + ": larger than 1 MiB");
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return Error(ErrorKind::io, path + ": can't be read");
  }
  KV_ASSIGN(Config config, parse_config(text, path));
  const bool has_token =
      std::any_of(config.tenants.begin(), config.tenants.end(),
                  [](const auto& tenant) { return tenant.token_sha256.has_value(); });
  if (has_token && (info.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    config.warnings.push_back(path + " holds tokens and others can read it; run chmod 600 " + path);
  }
  return config;
}

}  // namespace kvstrata::daemon
