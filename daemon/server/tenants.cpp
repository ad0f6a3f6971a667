#include "daemon/server/tenants.h"

#include <sodium.h>

#include <algorithm>

namespace kvstrata::daemon {

TenantTable::TenantTable(std::vector<TenantConfig> tenants, std::uint32_t own_uid)
    : own_uid_(own_uid) {
  // Ids follow the names, so the order of the file does not matter.
  std::sort(tenants.begin(), tenants.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::uint32_t next = default_id_.value;
  for (TenantConfig& tenant : tenants) {
    const TenantId id = tenant.name == default_name ? default_id_ : TenantId{++next};
    has_tokens_ |= tenant.token_sha256.has_value();
    tenants_.push_back({std::move(tenant), id});
  }
}

TenantIdentity TenantTable::default_tenant(bool admin) const {
  return {default_id_, std::string(default_name), admin};
}

Result<TenantIdentity> TenantTable::by_token(std::string_view token) const {
  const Hash256 digest = sha256(as_bytes(token));
  const Tenant* match = nullptr;
  for (const Tenant& tenant : tenants_) {
    if (!tenant.config.token_sha256) continue;
    const bool equal = sodium_memcmp(digest.bytes.data(), tenant.config.token_sha256->bytes.data(),
                                     digest.bytes.size()) == 0;
    if (equal) match = &tenant;  // no early exit: time must not tell which one
  }
  if (match == nullptr) return Error(ErrorKind::unauthenticated, "the token is not known here");
  return TenantIdentity{match->id, match->config.name, match->config.admin};
}

Result<TenantIdentity> TenantTable::authenticate(std::optional<std::string_view> token,
                                                 const Peer& peer) const {
  if (token) return by_token(*token);
  if (peer.is_unix) {
    for (const Tenant& tenant : tenants_) {
      const auto& uids = tenant.config.uids;
      if (std::find(uids.begin(), uids.end(), peer.uid) != uids.end()) {
        return TenantIdentity{tenant.id, tenant.config.name, tenant.config.admin};
      }
    }
    if (peer.uid == own_uid_ || peer.uid == 0) return default_tenant(true);
    return Error(
        ErrorKind::unauthenticated,
        "user id " + std::to_string(peer.uid) +
            " belongs to no tenant; give a token, or list it in uids of a [[tenants]] entry");
  }
  if (peer.loopback && !has_tokens_) return default_tenant(false);
  return Error(ErrorKind::unauthenticated, "connections over TCP need a token");
}

}  // namespace kvstrata::daemon
