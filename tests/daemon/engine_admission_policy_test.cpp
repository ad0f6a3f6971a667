// The admission policies by themselves, without an engine.
#include <doctest/doctest.h>

#include "daemon/engine/admission.h"
#include "daemon/engine/disk_gate.h"
#include "engine_test_kit.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

BlockKey key_of(std::uint32_t number) {
  BlockKey key;
  key.ns = {1};
  store_le(reinterpret_cast<std::byte*>(key.digest.bytes.data()), number);
  return key;
}

}  // namespace

TEST_CASE("A policy of an unknown name is refused, with the names there are") {
  const auto policy = make_admission_policy("third-use", Clock::system());
  REQUIRE_FALSE(policy.ok());
  CHECK(policy.error().kind() == ErrorKind::invalid_argument);
  CHECK(policy.error().message().find("\"all\", \"second-use\"") != std::string::npos);
}

TEST_CASE("second-use admits a key at its second put while it is remembered, not later") {
  FakeClock clock;
  const auto policy = make_admit_on_second_use(clock);
  const auto admits = [&](std::uint32_t key) {
    return policy->admits_new(key_of(key), DiskRoom::scarce);
  };
  CHECK_FALSE(admits(1));
  CHECK(admits(1));
  CHECK_FALSE(admits(2));
  clock.advance(std::chrono::minutes(19));
  CHECK(admits(2));
  clock.advance(std::chrono::minutes(40));
  CHECK_FALSE(admits(1));
}

TEST_CASE("second-use forgets a key that was put no more within two periods, though others are") {
  FakeClock clock;
  const auto policy = make_admit_on_second_use(clock);
  CHECK_FALSE(policy->admits_new(key_of(0), DiskRoom::scarce));
  for (std::uint32_t minute = 1; minute <= 40; ++minute) {
    clock.advance(std::chrono::minutes(1));
    CHECK_FALSE(policy->admits_new(key_of(minute), DiskRoom::scarce));
  }
  CHECK_FALSE(policy->admits_new(key_of(0), DiskRoom::scarce));
  CHECK(policy->admits_new(key_of(21), DiskRoom::scarce));
}

TEST_CASE("second-use remembers no more keys than it may, and forgets the oldest first") {
  const auto policy = make_admit_on_second_use(Clock::system(), {.keys_max = 8});
  for (std::uint32_t key = 0; key < 12; ++key) {
    CHECK_FALSE(policy->admits_new(key_of(key), DiskRoom::scarce));
  }
  CHECK(policy->admits_new(key_of(11), DiskRoom::scarce));
  CHECK_FALSE(policy->admits_new(key_of(0), DiskRoom::scarce));
}

TEST_CASE("second-use admits all, and remembers it, while the disk has plenty of room") {
  const auto policy = make_admit_on_second_use(Clock::system());
  CHECK(policy->admits_new(key_of(1), DiskRoom::plenty));
  CHECK(policy->admits_new(key_of(1), DiskRoom::scarce));
}

TEST_CASE("Room is scarce once an eighth of the segments is left beside the reserve, or two") {
  CHECK(room_of(12, 12) == DiskRoom::plenty);
  CHECK(room_of(5, 12) == DiskRoom::plenty);
  CHECK(room_of(4, 12) == DiskRoom::scarce);
  CHECK(room_of(0, 12) == DiskRoom::scarce);
  CHECK(room_of(103, 800) == DiskRoom::plenty);
  CHECK(room_of(102, 800) == DiskRoom::scarce);
}
