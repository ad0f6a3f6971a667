// A LeaseTable keeps who may read which blocks until when. A lease is counted, owned by
// connections, and ends with its last owner or at its monotonic deadline, whichever is first.
//
// Threads: control thread only. The table holds no memory: whoever creates a lease pins its blocks
// and unpins them when the table hands the lease back as ended.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvstrata/clock.h"
#include "kvstrata/id.h"
#include "kvstrata/result.h"

namespace kvstrata::hostmem {

using LeaseSecret = std::array<std::byte, 16>;

inline constexpr Milliseconds lease_period_max = std::chrono::hours(24);

struct Lease {
  LeaseId id;
  LeaseSecret secret{};
  TenantId tenant;
  std::size_t blocks = 0;
  MonotonicTime deadline;
};

/// Why a lease ended. Blocks of an expired lease may still be read by a slow client, so they stay
/// pinned for one lease period more (the caller's part).
enum class LeaseEnd : std::uint8_t { released, owner_gone, expired };

struct EndedLease {
  Lease lease;
  LeaseEnd why = LeaseEnd::released;
};

struct LeaseStats {
  std::uint64_t active = 0, created = 0, released = 0, expired = 0, owner_gone = 0;
  std::uint64_t pinned_blocks = 0;  ///< sum over active leases
};

class LeaseTable {
 public:
  /// `leases_max` bounds the table, `blocks_max` one lease.
  static std::unique_ptr<LeaseTable> create(const Clock& clock, std::size_t leases_max = 65536,
                                            std::size_t blocks_max = 65536);
  virtual ~LeaseTable() = default;

  /// `invalid_argument` for a period outside 1 ms..24 h, `too_large` for too many blocks, `busy`
  /// when the table is full. The pointer is good until the lease ends.
  virtual Result<const Lease*> add(TenantId tenant, ConnectionId owner, std::size_t blocks,
                                   Milliseconds period) = 0;
  /// Adds an owner that knows the secret; `not_found` for anything else, also another tenant's;
  /// `lease_expired` past its deadline.
  virtual Result<const Lease*> attach(LeaseId id, const LeaseSecret& secret, TenantId tenant,
                                      ConnectionId owner) = 0;
  /// The lease, if `owner` owns it and it has not ended: `lease_expired` if its deadline passed
  /// (the last 4096 of these are remembered), else `not_found`.
  virtual Result<const Lease*> find(LeaseId id, ConnectionId owner) const = 0;
  /// Moves the deadline to `period` from now, never back; errors as find().
  virtual Result<MonotonicTime> renew(LeaseId id, ConnectionId owner, Milliseconds period) = 0;
  /// Takes one owner off; returns the lease if that was the last one. `not_found` if it isn't one
  /// ("not held" changes nothing).
  virtual Result<std::vector<EndedLease>> release(LeaseId id, ConnectionId owner) = 0;
  /// Takes `owner` off all its leases; returns those it was the last owner of.
  virtual std::vector<EndedLease> connection_closed(ConnectionId owner) = 0;
  /// Everything whose deadline has passed.
  virtual std::vector<EndedLease> expire() = 0;
  /// When expire() next has something to do; none: no leases.
  virtual std::optional<MonotonicTime> next_deadline() const = 0;

  virtual LeaseStats stats() const = 0;
};

}  // namespace kvstrata::hostmem
