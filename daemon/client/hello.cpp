#include "daemon/client/hello.h"

namespace kvstrata::client {

namespace {
using protocol::Body;
constexpr std::size_t name_bytes_max = 256;
}  // namespace

Body hello_body(const ClientOptions& options) {
  Body body;
  body.set_u64("protocol", protocol::version);
  body.set_text("client", options.name);
  if (!options.token.empty()) body.set_text("token", options.token);
  return body;
}

Result<ServerInfo> decode_hello_reply(const Body& body) {
  ServerInfo info;
  KV_ASSIGN(const std::uint64_t version, body.get_u64("protocol", 0, UINT32_MAX));
  if (version != protocol::version) {
    return Error(ErrorKind::unsupported,
                 "the daemon speaks protocol " + std::to_string(version) + "; this client knows 1");
  }
  KV_ASSIGN(info.server, body.get_text("server", name_bytes_max));
  KV_ASSIGN(info.tenant, body.get_text("tenant", name_bytes_max));
  KV_ASSIGN(info.store, body.get_text("store", name_bytes_max));
  KV_ASSIGN(info.admin, body.get_bool_or("admin", false));
  KV_ASSIGN(const ByteView boot, body.get_bytes_exact("boot", info.boot.size()));
  std::memcpy(info.boot.data(), boot.data(), boot.size());
  return info;
}

Result<ClientEvent> decode_event(const Body& body, ByteView payload) {
  ClientEvent event;
  KV_ASSIGN(event.event, body.get_text("event", name_bytes_max));
  KV_ASSIGN(const std::uint64_t ns, body.get_u64_or("ns", 0, 0, UINT32_MAX));
  event.ns = static_cast<std::uint32_t>(ns);
  KV_ASSIGN(const std::uint64_t group, body.get_u64_or("group", 0, 0, UINT16_MAX));
  event.group = static_cast<std::uint16_t>(group);
  KV_ASSIGN(const std::uint64_t tier, body.get_u64_or("tier", 0, 0, UINT8_MAX));
  event.tier = static_cast<protocol::Tier>(tier);
  KV_ASSIGN(event.fingerprint, body.get_text_or("fingerprint", "", name_bytes_max));
  KV_ASSIGN(event.weight_epoch, body.get_u64_or("epoch", 0, 0, UINT64_MAX));
  if (payload.size() % sizeof(Hash256) != 0) {
    return Error(ErrorKind::invalid_argument, "an event's payload must be hashes of 32 bytes");
  }
  event.hashes.resize(payload.size() / sizeof(Hash256));
  if (!payload.empty()) std::memcpy(event.hashes.data(), payload.data(), payload.size());
  return event;
}

}  // namespace kvstrata::client
