// A LeaseDesk grants leases on blocks: it pins what a lease names, in host memory and on disk, and
// lets go when the lease ended. Blocks of an expired lease stay for one period more, since a slow
// client may still be reading them. Control thread only.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "daemon/engine/block_directory.h"

namespace kvstrata::daemon {

class LeaseDesk {
 public:
  LeaseDesk(Core& core, BlockDirectory& directory);

  Result<LeaseGrant> grant(const Caller& caller, std::vector<BlockPtr> blocks, Milliseconds period);
  Result<LeaseGrant> attach(const Caller& caller, LeaseId id, const hostmem::LeaseSecret& secret);
  /// The blocks of a live lease of this caller.
  Result<std::vector<BlockPtr>> blocks(const Caller& caller, LeaseId id) const;
  Result<std::uint64_t> renew(const Caller& caller, LeaseId id, Milliseconds period);
  Status release(const Caller& caller, LeaseId id);
  void connection_closed(ConnectionId connection);
  void expire();

  hostmem::LeaseStats stats() const { return table_->stats(); }

 private:
  struct Held {
    std::vector<BlockPtr> blocks;
    std::vector<BlockPtr> on_disk;  ///< those whose record must survive reclaim
    Milliseconds period{};
  };
  struct Quarantined {
    MonotonicTime until;
    Held held;
  };
  LeaseGrant describe(const hostmem::Lease& lease, const Held& held) const;
  Status check_period(Milliseconds period) const;
  void ended(const std::vector<hostmem::EndedLease>& leases);
  void hold_records(const std::vector<BlockPtr>& blocks);
  void unhold_lapsed_records();
  void let_go(const Held& held);

  Core& core_;
  BlockDirectory& directory_;
  std::unique_ptr<hostmem::LeaseTable> table_;
  std::unordered_map<LeaseId, Held> held_;
  std::deque<Quarantined> quarantine_;
  std::vector<BlockPtr> lapsed_;  ///< records that no lease counts on any more, still held
};

}  // namespace kvstrata::daemon
