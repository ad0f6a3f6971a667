#include "hostmem/lease.h"

#include <doctest/doctest.h>

#include <set>

namespace kvstrata::hostmem::test {

namespace {

constexpr TenantId alice{1}, bob{2};
constexpr ConnectionId r1{11}, r2{12}, stranger{13};
constexpr Milliseconds period{1000};

struct LeaseFixture {
  Lease add(ConnectionId owner, std::size_t blocks = 1, TenantId tenant = alice) {
    return *table->add(tenant, owner, blocks, period).value();
  }
  std::uint64_t pinned() const { return table->stats().pinned_blocks; }
  ErrorKind find_error(LeaseId id, ConnectionId owner) const {
    return table->find(id, owner).error().kind();
  }

  FakeClock clock;
  std::unique_ptr<LeaseTable> table = LeaseTable::create(clock);
};

}  // namespace

TEST_CASE("A lease is found by its owner and by nobody else") {
  LeaseFixture f;
  const Lease lease = f.add(r1, 3);
  CHECK((*f.table->find(lease.id, r1))->blocks == 3);
  CHECK(f.find_error(lease.id, stranger) == ErrorKind::not_found);
  CHECK(f.find_error(LeaseId{999}, r1) == ErrorKind::not_found);
}

TEST_CASE("Releasing hands the lease back with its blocks, once") {
  LeaseFixture f;
  const Lease lease = f.add(r1, 3);
  const auto ended = f.table->release(lease.id, r1).value();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].why == LeaseEnd::released);
  CHECK(ended[0].lease.blocks == 3);
  CHECK(f.pinned() == 0);
}

TEST_CASE("A second release is not held, and changes nothing") {
  LeaseFixture f;
  const Lease first = f.add(r1);
  const Lease second = f.add(r2);  // the same block
  CHECK(f.table->release(first.id, r1).ok());
  for (int i = 0; i < 3; ++i) {
    CHECK(f.table->release(first.id, r1).error().kind() == ErrorKind::not_found);
  }
  CHECK(f.table->release(second.id, r1).error().kind() == ErrorKind::not_found);
  CHECK(f.pinned() == 1);
  CHECK(f.table->find(second.id, r2).ok());
  CHECK(f.table->stats().released == 1);
}

TEST_CASE("A connection that goes takes its own leases only") {
  LeaseFixture f;
  f.add(r1, 2);
  f.add(r1, 3);
  const Lease other = f.add(r2, 4);
  const auto ended = f.table->connection_closed(r1);
  CHECK(ended.size() == 2);
  for (const EndedLease& end : ended) CHECK(end.why == LeaseEnd::owner_gone);
  CHECK(f.pinned() == 4);
  CHECK(f.table->find(other.id, r2).ok());
  CHECK(f.table->connection_closed(r1).empty());
}

TEST_CASE("A lease with two owners ends with the last of them") {
  LeaseFixture f;
  const Lease lease = f.add(r1, 5);
  CHECK(f.table->attach(lease.id, lease.secret, alice, r2).ok());
  CHECK(f.table->release(lease.id, r1).value().empty());
  CHECK(f.find_error(lease.id, r1) == ErrorKind::not_found);
  CHECK(f.table->find(lease.id, r2).ok());
  CHECK(f.pinned() == 5);
  CHECK(f.table->connection_closed(r2).size() == 1);
  CHECK(f.pinned() == 0);
}

TEST_CASE("Attaching twice is owning once") {
  LeaseFixture f;
  const Lease lease = f.add(r1);
  CHECK(f.table->attach(lease.id, lease.secret, alice, r1).ok());
  CHECK(f.table->release(lease.id, r1).value().size() == 1);
}

TEST_CASE("Attaching takes the secret and the tenant, and says nothing of what was wrong") {
  LeaseFixture f;
  const Lease lease = f.add(r1);
  LeaseSecret wrong = lease.secret;
  wrong[15] ^= std::byte{1};
  const auto secret = f.table->attach(lease.id, wrong, alice, r2);
  const auto tenant = f.table->attach(lease.id, lease.secret, bob, r2);
  CHECK(secret.error().kind() == ErrorKind::not_found);
  CHECK(secret.error().message() == tenant.error().message());
  CHECK(f.table->attach(LeaseId{999}, lease.secret, alice, r2).error().kind() ==
        ErrorKind::not_found);
  CHECK(f.find_error(lease.id, r2) == ErrorKind::not_found);
}

TEST_CASE("No two leases share a secret or an id") {
  LeaseFixture f;
  std::set<LeaseSecret> secrets;
  std::set<LeaseId> ids;
  for (int i = 0; i < 1000; ++i) {
    const Lease lease = f.add(r1);
    secrets.insert(lease.secret);
    ids.insert(lease.id);
    CHECK(f.table->release(lease.id, r1).ok());
  }
  CHECK(secrets.size() == 1000);
  CHECK(ids.size() == 1000);
}

TEST_CASE("A lease expires at its deadline and not before") {
  LeaseFixture f;
  const Lease lease = f.add(r1, 2);
  f.clock.advance(period - Milliseconds(1));
  CHECK(f.table->expire().empty());
  CHECK(f.table->find(lease.id, r1).ok());
  f.clock.advance(Milliseconds(1));
  CHECK(f.find_error(lease.id, r1) == ErrorKind::lease_expired);
  const auto ended = f.table->expire();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].why == LeaseEnd::expired);
  CHECK(ended[0].lease.blocks == 2);
  CHECK(f.pinned() == 0);
  CHECK(f.table->stats().expired == 1);
}

TEST_CASE("A late owner is told expired, a stranger not found, and neither changes anything") {
  LeaseFixture f;
  const Lease lease = f.add(r1);
  f.clock.advance(period);
  CHECK(f.table->attach(lease.id, lease.secret, alice, r2).error().kind() ==
        ErrorKind::lease_expired);
  CHECK(f.table->renew(lease.id, r1, period).error().kind() == ErrorKind::lease_expired);
  f.table->expire();
  CHECK(f.find_error(lease.id, r1) == ErrorKind::lease_expired);
  CHECK(f.table->renew(lease.id, r1, period).error().kind() == ErrorKind::lease_expired);
  CHECK(f.find_error(lease.id, stranger) == ErrorKind::not_found);
  CHECK(f.table->release(lease.id, r1).error().kind() == ErrorKind::not_found);
  CHECK(f.table->connection_closed(r1).empty());
  CHECK(f.table->stats().active == 0);
}

TEST_CASE("Only so many expired leases are remembered") {
  LeaseFixture f;
  const Lease oldest = f.add(r1);
  for (int i = 0; i < 4096; ++i) f.add(r1);
  f.clock.advance(period);
  f.table->expire();
  CHECK(f.find_error(oldest.id, r1) == ErrorKind::not_found);
  CHECK(f.find_error(LeaseId{oldest.id.value + 1}, r1) == ErrorKind::lease_expired);
}

TEST_CASE("Renewing moves the deadline, never back") {
  LeaseFixture f;
  const Lease lease = f.add(r1);
  f.clock.advance(Milliseconds(900));
  const MonotonicTime deadline = f.table->renew(lease.id, r1, period).value();
  CHECK(deadline == f.clock.now() + period);
  CHECK(f.table->renew(lease.id, r1, Milliseconds(1)).value() == deadline);
  f.clock.advance(Milliseconds(900));
  CHECK(f.table->expire().empty());
  CHECK(f.table->next_deadline() == deadline);
  CHECK(f.table->renew(lease.id, stranger, period).error().kind() == ErrorKind::not_found);
}

TEST_CASE("The next deadline is the earliest, and none without leases") {
  LeaseFixture f;
  CHECK_FALSE(f.table->next_deadline());
  const Lease late = f.add(r1);
  CHECK(f.table->add(alice, r1, 1, Milliseconds(10)).ok());
  CHECK(f.table->next_deadline() == f.clock.now() + Milliseconds(10));
  f.clock.advance(Milliseconds(10));
  f.table->expire();
  CHECK(f.table->next_deadline() == late.deadline);
}

TEST_CASE("Setting the wall clock neither ends nor prolongs a lease") {
  LeaseFixture f;
  const auto minute = Milliseconds(60'000);
  const LeaseId id = f.table->add(alice, r1, 1, minute).value()->id;
  const std::uint64_t now_ms = f.clock.unix_ms();
  for (const std::uint64_t unix_ms :
       {now_ms + 3'600'000, now_ms - 3'600'000, std::uint64_t{0}, std::uint64_t{4102444800000}}) {
    f.clock.set_unix_ms(unix_ms);
    CHECK(f.table->expire().empty());
    CHECK(f.table->find(id, r1).ok());
  }
  f.clock.advance(minute);
  CHECK(f.table->expire().size() == 1);
}

TEST_CASE("Lookups that nobody reads leave nothing pinned") {
  LeaseFixture f;
  for (int i = 0; i < 1000; ++i) {
    const Lease lease = f.add(r1, 10);
    if (i % 2 == 0) CHECK(f.table->release(lease.id, r1).ok());
    f.clock.advance(Milliseconds(10));
    f.table->expire();
  }
  f.clock.advance(period);
  f.table->expire();
  const LeaseStats stats = f.table->stats();
  CHECK(stats.pinned_blocks == 0);
  CHECK(stats.active == 0);
  CHECK(stats.released == 500);
  CHECK(stats.expired == 500);
  CHECK(stats.created == 1000);
}

TEST_CASE("Leases, their blocks and their periods are bounded") {
  FakeClock clock;
  const auto table = LeaseTable::create(clock, 2, 3);
  CHECK(table->add(alice, r1, 4, period).error().kind() == ErrorKind::too_large);
  CHECK(table->add(alice, r1, 3, Milliseconds(0)).error().kind() == ErrorKind::invalid_argument);
  CHECK(table->add(alice, r1, 3, lease_period_max + Milliseconds(1)).error().kind() ==
        ErrorKind::invalid_argument);
  const LeaseId id = table->add(alice, r1, 3, lease_period_max).value()->id;
  CHECK(table->renew(id, r1, Milliseconds(-1)).error().kind() == ErrorKind::invalid_argument);
  CHECK(table->add(alice, r1, {}, period).ok());
  CHECK(table->add(alice, r1, {}, period).error().kind() == ErrorKind::busy);
  CHECK(table->release(id, r1).ok());
  CHECK(table->add(alice, r1, {}, period).ok());
}

}  // namespace kvstrata::hostmem::test
