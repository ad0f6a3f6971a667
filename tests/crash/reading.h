// Reads an item as a tenant and says what was seen of each of its keys. One thread at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "items.h"

namespace kvstrata::test {

/// Two tenants; each must never see what the other put.
inline const std::string tenant_names[] = {"red", "blue"};
std::string token_of(std::uint32_t tenant);

/// A TenantClient is a connection of one tenant, with the namespaces of the items it meets.
class TenantClient {
 public:
  static Result<TenantClient> connect(const std::string& address, std::uint32_t tenant,
                                      bool shared_memory);

  Client& client() { return client_; }
  std::uint32_t tenant() const { return tenant_; }
  const std::string& name() const { return tenant_names[tenant_]; }
  Result<Namespace> space(ItemKind kind, std::uint32_t thread);
  Result<Namespace> space(const Item& item) { return space(item.kind, item.thread); }

  /// One Seen per key of the item.
  Result<std::vector<Seen>> read(const Item& item);

 private:
  TenantClient(Client client, std::uint32_t tenant) : client_(std::move(client)), tenant_(tenant) {}
  Result<Fetched> fetch(const Item& item);
  Result<Seen> see(const Item& item, std::size_t block, const BlockView& view) const;

  Client client_;
  std::uint32_t tenant_;
  std::map<std::string, Namespace> spaces_;
};

}  // namespace kvstrata::test
