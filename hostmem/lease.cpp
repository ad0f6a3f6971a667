#include "hostmem/lease.h"

#include <sodium.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kvstrata::hostmem {

namespace {

using Owners = std::set<ConnectionId>;

/// How many expired leases are remembered, to tell a late owner "expired" and not "never heard of".
constexpr std::size_t expired_remembered_max = 4096;

struct Entry {
  Lease lease;
  Owners owners;
};

/// The owners of the leases that expired last.
class ExpiredLeases {
 public:
  void add(LeaseId id, Owners owners) {
    if (order_.size() == expired_remembered_max) {
      owners_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(id);
    owners_.emplace(id, std::move(owners));
  }
  bool had(LeaseId id, ConnectionId owner) const {
    const auto found = owners_.find(id);
    return found != owners_.end() && found->second.contains(owner);
  }

 private:
  std::deque<LeaseId> order_;
  std::unordered_map<LeaseId, Owners> owners_;
};

Error not_held(LeaseId id) {
  return {ErrorKind::not_found, "lease " + std::to_string(id.value) + " is not held"};
}

Error has_expired(LeaseId id) {
  return {ErrorKind::lease_expired, "lease " + std::to_string(id.value) + " has expired"};
}

Status check_period(Milliseconds period) {
  if (period > Milliseconds(0) && period <= lease_period_max) return {};
  return Error(ErrorKind::invalid_argument, "a lease lasts 1.." +
                                                std::to_string(lease_period_max.count()) +
                                                " ms, not " + std::to_string(period.count()));
}

class Table final : public LeaseTable {
 public:
  Table(const Clock& clock, std::size_t leases_max, std::size_t blocks_max)
      : clock_(clock), leases_max_(leases_max), blocks_max_(blocks_max) {
    KV_CHECK(sodium_init() >= 0, "libsodium can't start");
  }

  Result<const Lease*> add(TenantId tenant, ConnectionId owner, std::size_t blocks,
                           Milliseconds period) override;
  Result<const Lease*> attach(LeaseId id, const LeaseSecret& secret, TenantId tenant,
                              ConnectionId owner) override;
  Result<const Lease*> find(LeaseId id, ConnectionId owner) const override;
  Result<MonotonicTime> renew(LeaseId id, ConnectionId owner, Milliseconds period) override;
  Result<std::vector<EndedLease>> release(LeaseId id, ConnectionId owner) override;
  std::vector<EndedLease> connection_closed(ConnectionId owner) override;
  std::vector<EndedLease> expire() override;
  std::optional<MonotonicTime> next_deadline() const override;
  LeaseStats stats() const override { return stats_; }

 private:
  using Leases = std::unordered_map<LeaseId, Entry>;

  bool is_over(const Lease& lease) const { return lease.deadline <= clock_.now(); }
  void forget_owner(ConnectionId owner, LeaseId id);
  EndedLease end(Leases::iterator at, LeaseEnd why);

  const Clock& clock_;
  const std::size_t leases_max_, blocks_max_;
  Leases leases_;
  std::unordered_map<ConnectionId, std::unordered_set<LeaseId>> by_owner_;
  std::set<std::pair<MonotonicTime, LeaseId>> by_deadline_;
  ExpiredLeases expired_;
  std::uint64_t last_id_ = 0;
  LeaseStats stats_;
};

Result<const Lease*> Table::add(TenantId tenant, ConnectionId owner, std::size_t blocks,
                                Milliseconds period) {
  KV_TRY(check_period(period));
  if (blocks > blocks_max_) {
    return Error(ErrorKind::too_large, "a lease covers at most " + std::to_string(blocks_max_) +
                                           " blocks, not " + std::to_string(blocks));
  }
  if (leases_.size() >= leases_max_) {
    return Error(ErrorKind::busy, "all " + std::to_string(leases_max_) + " leases are held");
  }
  const LeaseId id{++last_id_};
  Lease lease{id, {}, tenant, blocks, clock_.now() + period};
  randombytes_buf(lease.secret.data(), lease.secret.size());
  by_deadline_.emplace(lease.deadline, id);
  by_owner_[owner].insert(id);
  ++stats_.active;
  ++stats_.created;
  stats_.pinned_blocks += lease.blocks;
  return &leases_.emplace(id, Entry{lease, {owner}}).first->second.lease;
}

Result<const Lease*> Table::attach(LeaseId id, const LeaseSecret& secret, TenantId tenant,
                                   ConnectionId owner) {
  const auto found = leases_.find(id);
  // One answer for "no such lease", "not yours" and "wrong secret": nothing is learnt by asking.
  if (found == leases_.end() || found->second.lease.tenant != tenant ||
      sodium_memcmp(found->second.lease.secret.data(), secret.data(), secret.size()) != 0) {
    return not_held(id);
  }
  if (is_over(found->second.lease)) return has_expired(id);
  found->second.owners.insert(owner);
  by_owner_[owner].insert(id);
  return &found->second.lease;
}

Result<const Lease*> Table::find(LeaseId id, ConnectionId owner) const {
  const auto found = leases_.find(id);
  if (found == leases_.end()) {
    return expired_.had(id, owner) ? has_expired(id) : not_held(id);
  }
  if (!found->second.owners.contains(owner)) return not_held(id);
  if (is_over(found->second.lease)) return has_expired(id);
  return &found->second.lease;
}

Result<MonotonicTime> Table::renew(LeaseId id, ConnectionId owner, Milliseconds period) {
  KV_TRY(check_period(period));
  KV_TRY(find(id, owner));
  Lease& lease = leases_.find(id)->second.lease;
  // Another owner may have asked for longer; renewing never shortens.
  const MonotonicTime deadline = std::max(lease.deadline, clock_.now() + period);
  by_deadline_.erase({lease.deadline, id});
  by_deadline_.emplace(deadline, id);
  lease.deadline = deadline;
  return deadline;
}

Result<std::vector<EndedLease>> Table::release(LeaseId id, ConnectionId owner) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.owners.erase(owner) == 0) return not_held(id);
  forget_owner(owner, id);
  std::vector<EndedLease> ended;
  if (found->second.owners.empty()) ended.push_back(end(found, LeaseEnd::released));
  return ended;
}

std::vector<EndedLease> Table::connection_closed(ConnectionId owner) {
  std::vector<EndedLease> ended;
  const auto owned = by_owner_.extract(owner);
  if (owned.empty()) return ended;
  for (const LeaseId id : owned.mapped()) {
    const auto found = leases_.find(id);
    KV_CHECK(found != leases_.end(), "an owner of a lease that ended");
    found->second.owners.erase(owner);
    if (found->second.owners.empty()) ended.push_back(end(found, LeaseEnd::owner_gone));
  }
  return ended;
}

std::vector<EndedLease> Table::expire() {
  std::vector<EndedLease> ended;
  const MonotonicTime now = clock_.now();
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const LeaseId id = by_deadline_.begin()->second;
    const auto found = leases_.find(id);
    KV_CHECK(found != leases_.end(), "a deadline of a lease that ended");
    for (const ConnectionId owner : found->second.owners) forget_owner(owner, id);
    expired_.add(id, std::move(found->second.owners));
    ended.push_back(end(found, LeaseEnd::expired));
  }
  return ended;
}

std::optional<MonotonicTime> Table::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

void Table::forget_owner(ConnectionId owner, LeaseId id) {
  const auto found = by_owner_.find(owner);
  KV_CHECK(found != by_owner_.end() && found->second.erase(id) == 1, "an owner without its lease");
  if (found->second.empty()) by_owner_.erase(found);
}

EndedLease Table::end(Leases::iterator at, LeaseEnd why) {
  EndedLease ended{at->second.lease, why};
  by_deadline_.erase({ended.lease.deadline, ended.lease.id});
  leases_.erase(at);
  --stats_.active;
  KV_CHECK(stats_.pinned_blocks >= ended.lease.blocks, "more blocks unpinned than pinned");
  stats_.pinned_blocks -= ended.lease.blocks;
  switch (why) {
    case LeaseEnd::released: ++stats_.released; break;
    case LeaseEnd::owner_gone: ++stats_.owner_gone; break;
    case LeaseEnd::expired: ++stats_.expired; break;
  }
  return ended;
}

}  // namespace

std::unique_ptr<LeaseTable> LeaseTable::create(const Clock& clock, std::size_t leases_max,
                                               std::size_t blocks_max) {
  return std::make_unique<Table>(clock, leases_max, blocks_max);
}

}  // namespace kvstrata::hostmem
