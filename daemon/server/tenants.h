// A TenantTable decides who a connection is: by token, or on a Unix socket by the peer's user id.
// Immutable after construction; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.h"
#include "kvstrata/id.h"
#include "kvstrata/result.h"

namespace kvstrata::daemon {

/// The other end of a connection, as the kernel tells it.
struct Peer {
  bool is_unix = false;
  std::uint32_t uid = 0;  ///< Unix only
  bool loopback = false;  ///< TCP only
  std::string name;       ///< for the log: "uid 1000 pid 17", "127.0.0.1:4711"
};

struct TenantIdentity {
  TenantId id;
  std::string name;
  bool admin = false;
};

class TenantTable {
 public:
  static constexpr std::string_view default_name = "default";

  /// `own_uid`: peers with it, and root, are the tenant "default" with admin rights.
  TenantTable(std::vector<TenantConfig> tenants, std::uint32_t own_uid);

  /// `unauthenticated` for a wrong token, or none where one is needed. A token is compared with
  /// every tenant's in constant time.
  Result<TenantIdentity> authenticate(std::optional<std::string_view> token,
                                      const Peer& peer) const;
  /// Whether there is anybody but the default tenant.
  bool has_several() const { return !tenants_.empty(); }

 private:
  struct Tenant {
    TenantConfig config;
    TenantId id;
  };
  TenantIdentity default_tenant(bool admin) const;
  Result<TenantIdentity> by_token(std::string_view token) const;

  std::vector<Tenant> tenants_;
  std::uint32_t own_uid_;
  TenantId default_id_{1};
  bool has_tokens_ = false;
};

}  // namespace kvstrata::daemon
