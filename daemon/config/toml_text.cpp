// to_toml(): the configuration as a file that means the same.
#include <cstdio>

#include "daemon/config/config.h"
#include "daemon/config/sizes.h"

namespace kvstrata::daemon {

namespace {

/// A basic TOML string: quotes, backslashes and control characters escaped.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class Writer {
 public:
  void section(std::string_view name) { out_ += "\n" + std::string(name) + "\n"; }
  void text(std::string_view key, std::string_view value) { line(key, quoted(value)); }
  void size(std::string_view key, std::uint64_t bytes) { line(key, quoted(format_size(bytes))); }
  void number(std::string_view key, std::uint64_t value) { line(key, std::to_string(value)); }
  void boolean(std::string_view key, bool value) { line(key, value ? "true" : "false"); }
  void line(std::string_view key, const std::string& value) {
    out_ += std::string(key) + " = " + value + "\n";
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_ = "# kvstratad, see doc/configuration.md\n";
};

std::string octal(std::uint32_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode);
  return text;
}

void write_server(Writer& out, const ServerConfig& server) {
  out.section("[server]");
  if (!server.socket.empty()) out.text("socket", server.socket);
  out.text("socket_mode", octal(server.socket_mode));
  if (!server.listen.empty()) out.text("listen", server.listen);
  out.boolean("public", server.is_public);
  out.number("connections_max", server.connections_max);
  out.size("inline_memory", server.inline_bytes_max);
  out.number("handshake_timeout_ms", server.handshake_timeout_ms);
  out.number("stall_timeout_ms", server.stall_timeout_ms);
  out.number("drain_timeout_ms", server.drain_timeout_ms);
}

void write_tenant(Writer& out, const TenantConfig& tenant) {
  out.section("[[tenants]]");
  out.text("name", tenant.name);
  if (tenant.token_sha256) out.text("token_sha256", tenant.token_sha256->hex());
  if (!tenant.uids.empty()) {
    std::string list;
    for (const std::uint32_t uid : tenant.uids) {
      list += (list.empty() ? "" : ", ") + std::to_string(uid);
    }
    out.line("uids", "[" + list + "]");
  }
  out.boolean("admin", tenant.admin);
}

}  // namespace

std::string to_toml(const Config& config) {
  Writer out;
  write_server(out, config.server);
  out.section("[store]");
  if (!config.store.directory.empty()) out.text("directory", config.store.directory);
  if (config.store.disk_bytes != 0) out.size("disk", config.store.disk_bytes);
  out.text("device", to_string(config.store.device));
  if (config.store.segment_bytes != 0) out.size("segment", config.store.segment_bytes);
  out.text("admission", to_string(config.store.admission));
  out.section("[memory]");
  if (config.memory.host_bytes != 0) out.size("host", config.memory.host_bytes);
  out.boolean("lock", config.memory.lock);
  out.boolean("huge_pages", config.memory.huge_pages);
  if (config.memory.prefault_bytes) out.size("prefault", *config.memory.prefault_bytes);
  out.section("[codec]");
  out.text("at_rest", config.codec.at_rest);
  out.section("[log]");
  out.text("level", to_string(config.log.level));
  for (const TenantConfig& tenant : config.tenants) write_tenant(out, tenant);
  return out.take();
}

}  // namespace kvstrata::daemon
