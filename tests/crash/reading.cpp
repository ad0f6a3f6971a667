#include "reading.h"

namespace kvstrata::test {

namespace {

// A reader that finds all memory in use asks again; only a daemon that hangs exhausts this.
constexpr int attempts_max = 10'000;

bool may_pass(const Error& error) {
  return error.kind() == ErrorKind::busy || error.kind() == ErrorKind::lease_expired;
}

}  // namespace

std::string token_of(std::uint32_t tenant) {
  return "token-of-the-tenant-" + tenant_names[tenant];
}

Result<TenantClient> TenantClient::connect(const std::string& address, std::uint32_t tenant,
                                           bool shared_memory) {
  ClientOptions options;
  options.address = address;
  options.token = token_of(tenant);
  options.shared_memory = shared_memory;
  options.prefault = false;
  options.connect_timeout = Milliseconds(20'000);
  options.request_timeout = Milliseconds(120'000);
  KV_ASSIGN(Client client, Client::connect(options));
  return TenantClient(std::move(client), tenant);
}

Result<Namespace> TenantClient::space(ItemKind kind, std::uint32_t thread) {
  const NamespaceSpec spec = spec_of(kind, thread);
  const auto known = spaces_.find(spec.model.fingerprint);
  if (known != spaces_.end()) return known->second;
  KV_ASSIGN(const Namespace registered, client_.register_model(spec));
  spaces_.emplace(spec.model.fingerprint, registered);
  return registered;
}

Result<Fetched> TenantClient::fetch(const Item& item) {
  KV_ASSIGN(const Namespace ns, space(item));
  if (!item.is_chain()) {
    const std::string keys[] = {item.name()};
    return client_.get(ns, Selection::of_keys(keys), false);
  }
  return client_.get(ns, Selection::of_tokens(item.tokens()), false);
}

Result<Seen> TenantClient::see(const Item& item, std::size_t block, const BlockView& view) const {
  if (!view) {
    const ErrorKind kind = view.status().error().kind();
    // A record found damaged is a miss for its reader; the daemon counts it, and so does the test.
    if (kind == ErrorKind::not_found || kind == ErrorKind::corrupt) return Seen::missing;
    return view.status().error();
  }
  ByteVector bytes(view.bytes().size());
  KV_TRY(view.copy_out(bytes));
  if (bytes == item.content(name(), block)) return Seen::own_bytes;
  const std::string& other = tenant_names[1 - tenant_];
  return bytes == item.content(other, block) ? Seen::bytes_of_other_tenant : Seen::wrong_bytes;
}

Result<std::vector<Seen>> TenantClient::read(const Item& item) {
  std::optional<Error> why;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const Result<Fetched> fetched = fetch(item);
    if (!fetched) {
      if (!may_pass(fetched.error())) return fetched.error();
      why = fetched.error();
      continue;
    }
    std::vector<Seen> seen;
    why.reset();
    for (std::size_t block = 0; block < item.keys.size() && !why; ++block) {
      const Result<Seen> one = block < fetched->blocks.size()
                                   ? see(item, block, fetched->blocks[block])
                                   : Result<Seen>(Seen::missing);
      if (one) {
        seen.push_back(*one);
      } else {
        why = one.error();
      }
    }
    if (!why) return seen;
    if (!may_pass(*why)) return *why;
  }
  return *why;
}

}  // namespace kvstrata::test
