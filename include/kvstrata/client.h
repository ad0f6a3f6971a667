// The C++ client: stores and fetches blocks of a kvstratad over a Unix socket (blocks move through
// shared memory) or TCP (blocks move in the messages). A complete program: doc/client-cpp.md.
//
// Threads: a Client with everything that came from it (Lease, BlockView, Reservation) is used by
// one thread at a time; only Client::cancel() may be called from any thread at any time. Time: no
// call takes longer than ClientOptions::request_timeout, connecting included (looking a host name
// up is the system's business and not counted). Restarts: a call that finds the connection gone
// connects again and registers its namespace again. A call during which the connection breaks fails
// with `unavailable`. What belonged to the old connection stays ended: leases, views and
// reservations answer `lease_expired`.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/clock.h"
#include "kvstrata/keys.h"
#include "kvstrata/protocol.h"
#include "kvstrata/result.h"

namespace kvstrata {

namespace client {  // of daemon/client
class BlockMemory;
class Connection;
struct Registration;
class Session;
}  // namespace client

struct ClientOptions {
  std::string address;  ///< "unix:/path", "tcp:host:port", "tcp:[::1]:7410"
  std::string token;    ///< empty: none
  std::string name = "kvstrata-cpp";
  Milliseconds connect_timeout{2'000};   ///< connect() waits so long for a daemon to be there
  Milliseconds request_timeout{30'000};  ///< of every call; 1 ms..600 s
  bool shared_memory = true;             ///< false: blocks come in the messages also over Unix
  bool prefault_chunks = true;           ///< take page faults when a chunk is mapped, not at reads
};

struct ServerInfo {
  std::string server;  ///< name/version
  std::string tenant;
  std::string store;                 ///< id of the store, hex
  std::array<std::byte, 16> boot{};  ///< differs each start of the daemon
  bool admin = false;
  bool shared_memory = false;  ///< whether blocks move through shared memory on this connection
};

/// A Namespace is one model's cache of this tenant, as registered. A cheap handle, copied freely.
class Namespace {
 public:
  std::uint32_t id() const;
  const Hash256& hash() const;  ///< h[-1], the parent of a sequence's first block
  std::uint64_t weight_epoch() const;
  const NamespaceSpec& spec() const;
  std::uint32_t block_tokens() const { return spec().model.block_tokens; }
  /// Bytes of one block of `group`; 0 for opaque namespaces, whose values have any size.
  std::uint64_t block_bytes(std::uint16_t group = 0) const;

 private:
  friend class Client;
  friend class client::Session;
  explicit Namespace(std::shared_ptr<client::Registration> registration)
      : registration_(std::move(registration)) {}
  std::shared_ptr<client::Registration> registration_;
};

/// Extra keys (an image's hash, for example) by the index of the block they touch.
using ExtraKeys = std::map<std::uint32_t, std::vector<std::string>>;

/// A Selection names stored blocks. It refers to its spans, which must outlive the call it is for.
struct Selection {
  std::span<const Hash256> hashes;        ///< a prefix in order
  std::span<const std::uint32_t> tokens;  ///< from the sequence's start; only full blocks count
  std::span<const std::string> keys;      ///< opaque keys, 1..256 bytes each
  const ExtraKeys* extra_keys = nullptr;  ///< with tokens
  std::uint16_t group = 0;                ///< layer group
  protocol::Verb reserved = {};           ///< keeps aggregate initialisation by name open

  static Selection of_hashes(std::span<const Hash256> hashes, std::uint16_t group = 0);
  static Selection of_tokens(std::span<const std::uint32_t> tokens, std::uint16_t group = 0);
  static Selection of_keys(std::span<const std::string> keys);
};
