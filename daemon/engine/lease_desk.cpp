#include "daemon/engine/lease_desk.h"

#include <algorithm>
#include <utility>

namespace kvstrata::daemon {

LeaseDesk::LeaseDesk(Core& core, BlockDirectory& directory)
    : core_(core), directory_(directory), table_(hostmem::LeaseTable::create(core.clock)) {}

Status LeaseDesk::check_period(Milliseconds period) const {
  if (period >= Milliseconds(100) && period <= core_.options.lease_period_max) return {};
  return Error(
      ErrorKind::invalid_argument,
      "lease_ms must be in 100.." + std::to_string(core_.options.lease_period_max.count()));
}

Result<LeaseGrant> LeaseDesk::grant(const Caller& caller, std::vector<BlockPtr> blocks,
                                    Milliseconds period) {
  KV_TRY(check_period(period));
  if (blocks.empty()) return LeaseGrant{};
  KV_ASSIGN(const hostmem::Lease* lease,
            table_->add(caller.tenant, caller.connection, blocks.size(), period));
  Held held;
  held.blocks = std::move(blocks);
  held.period = period;
  for (const BlockPtr& block : held.blocks) {
    directory_.hold(block);
    // A block in host memory is safe by that hold; one on disk must survive reclaim too.
    if (block->host == Block::HostCopy::absent) held.on_disk.push_back(block);
  }
  hold_records(held.on_disk);
  return describe(*lease, held_[lease->id] = std::move(held));
}

LeaseGrant LeaseDesk::describe(const hostmem::Lease& lease, const Held& held) const {
  LeaseGrant grant;
  grant.lease = lease.id;
  grant.secret = lease.secret;
  const auto left = std::chrono::duration_cast<Milliseconds>(lease.deadline - core_.clock.now());
  grant.expires_in_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, left.count()));
  grant.tiers.reserve(held.blocks.size());
  for (const BlockPtr& block : held.blocks) {
    grant.tiers.push_back(block->host == Block::HostCopy::ready ? Tier::host : Tier::disk);
  }
  return grant;
}

Result<LeaseGrant> LeaseDesk::attach(const Caller& caller, LeaseId id,
                                     const hostmem::LeaseSecret& secret) {
  KV_ASSIGN(const hostmem::Lease* lease,
            table_->attach(id, secret, caller.tenant, caller.connection));
  return describe(*lease, held_.at(lease->id));
}

Result<std::vector<BlockPtr>> LeaseDesk::blocks(const Caller& caller, LeaseId id) const {
  KV_ASSIGN(const hostmem::Lease* lease, table_->find(id, caller.connection));
  return held_.at(lease->id).blocks;
}

Result<std::uint64_t> LeaseDesk::renew(const Caller& caller, LeaseId id, Milliseconds period) {
  KV_TRY(check_period(period));
  KV_ASSIGN(const MonotonicTime deadline, table_->renew(id, caller.connection, period));
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - core_.clock.now());
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, left.count()));
}

Status LeaseDesk::release(const Caller& caller, LeaseId id) {
  KV_ASSIGN(const auto leases, table_->release(id, caller.connection));
  ended(leases);
  return {};
}

void LeaseDesk::connection_closed(ConnectionId connection) {
  ended(table_->connection_closed(connection));
}

void LeaseDesk::expire() {
  ended(table_->expire());
  unhold_lapsed_records();
  const MonotonicTime now = core_.clock.now();
  std::erase_if(quarantine_, [&](const Quarantined& one) {
    if (one.until > now) return false;
    let_go(one.held);
    return true;
  });
}

void LeaseDesk::ended(const std::vector<hostmem::EndedLease>& leases) {
  for (const hostmem::EndedLease& one : leases) {
    auto node = held_.extract(one.lease.id);
    KV_CHECK(!node.empty(), "every lease of the table is held here");
    if (one.why == hostmem::LeaseEnd::expired) {
      const MonotonicTime until = core_.clock.now() + node.mapped().period;
      quarantine_.push_back({until, std::move(node.mapped())});
    } else {
      let_go(node.mapped());
    }
  }
}

void LeaseDesk::hold_records(const std::vector<BlockPtr>& blocks) {
  std::vector<BlockKey> keys;
  for (const BlockPtr& block : blocks) {
    ++block->record_leases;
    if (std::exchange(block->record_held, true)) continue;
    keys.push_back(block->key);
  }
  if (!keys.empty()) core_.store->hold(keys);
}

// Not at once: a prefix that was just released is often looked up again, and then still held.
void LeaseDesk::unhold_lapsed_records() {
  std::vector<BlockKey> keys;
  for (const BlockPtr& block : std::exchange(lapsed_, {})) {
    if (block->record_leases > 0 || !std::exchange(block->record_held, false)) continue;
    keys.push_back(block->key);
  }
  if (!keys.empty()) core_.store->unhold(keys);
}

void LeaseDesk::let_go(const Held& held) {
  for (const BlockPtr& block : held.blocks) directory_.unhold(block);
  for (const BlockPtr& block : held.on_disk) {
    if (--block->record_leases == 0) lapsed_.push_back(block);
  }
}

}  // namespace kvstrata::daemon
