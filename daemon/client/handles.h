// The inside of the handles a Client gives out: leases, reservations, namespaces. Each holds the
// connection it depends on. One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "daemon/client/connection.h"
#include "kvstrata/client.h"

namespace kvstrata::client {

/// A handle's destructor waits no longer than this for the socket to take its few bytes.
inline constexpr Milliseconds farewell_limit{1'000};

struct LeaseState {
  std::shared_ptr<Connection> connection;
  std::uint64_t id = 0;
  std::array<std::byte, 16> secret{};
  std::vector<protocol::Tier> tiers;
  MonotonicTime expires;
  std::uint64_t block_bytes = 0;  ///< 0: not known
  Milliseconds request_timeout{30'000};
};

/// Reads lease, secret, tiers and expires_in_ms of a reply; lease 0: an empty Lease.
/// `block_count`: how many blocks the lease covers where the reply has no tiers.
Result<Lease> decode_lease(const protocol::Body& body, std::shared_ptr<Connection> connection,
                           std::uint64_t block_bytes, Milliseconds request_timeout);

struct ReservationState {
  std::shared_ptr<Connection> connection;
  std::vector<std::uint64_t> ids;  ///< of the slots
  std::vector<MutableBytes> slots;
  std::vector<std::shared_ptr<MappedChunk>> chunks;  ///< kept mapped
};

/// Gives all slots back, if there are any.
void abort_slots(ReservationState& state);

struct Registration {
  const Session* owner = nullptr;
  NamespaceSpec spec;
  std::uint32_t id = 0;
  Hash256 hash;
  std::vector<std::uint64_t> block_bytes;
  std::uint64_t connection_number = 0;  ///< where it is registered
  bool stale = false;                   ///< the daemon's weights have another epoch by now
};

}  // namespace kvstrata::client
