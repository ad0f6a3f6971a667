#include <doctest/doctest.h>

#include <algorithm>
#include <list>

#include "hostmem/eviction_policy.h"
#include "tests/base/seed.h"

namespace kvstrata::hostmem::test {

namespace {

BlockKey key(std::uint64_t n) {
  BlockKey key;
  store_le(key.digest.bytes.data(), n);
  return key;
}

std::vector<BlockKey> keys(std::initializer_list<std::uint64_t> numbers) {
  std::vector<BlockKey> all;
  for (const std::uint64_t n : numbers) all.push_back(key(n));
  return all;
}

bool always(const BlockKey&) {
  return true;
}

/// The blocks in order of eviction; empties the policy.
std::vector<BlockKey> drain(EvictionPolicy& policy) {
  std::vector<BlockKey> order;
  while (const auto victim = policy.victim(always, 1)) {
    order.push_back(*victim);
    policy.removed(*victim);
  }
  return order;
}

std::unique_ptr<EvictionPolicy> policy_of(std::initializer_list<std::uint64_t> numbers) {
  auto policy = make_lru_policy();
  for (const std::uint64_t n : numbers) policy->inserted(key(n), 4096);
  return policy;
}

}  // namespace

TEST_CASE("Untouched blocks go in the order they came") {
  CHECK(drain(*policy_of({3, 1, 2})) == keys({3, 1, 2}));
}

TEST_CASE("A touched prefix goes last, and from its end") {
  const auto policy = policy_of({1, 2, 3, 4, 5});
  policy->touched(keys({1, 2, 3}));
  CHECK(drain(*policy) == keys({4, 5, 3, 2, 1}));
}

TEST_CASE("The head shared by two prefixes outlives both tails") {
  const auto policy = policy_of({1, 2, 3, 4});
  policy->touched(keys({1, 2, 3}));
  policy->touched(keys({1, 4}));
  CHECK(drain(*policy) == keys({3, 2, 4, 1}));
}

TEST_CASE("Blocks of a prefix that aren't in memory are passed over") {
  const auto policy = policy_of({1, 2});
  policy->touched(keys({1, 7, 8}));
  CHECK(policy->size() == 2);
  CHECK(drain(*policy) == keys({2, 1}));
}

TEST_CASE("A refused block stays where it is, and the next one is asked") {
  const auto policy = policy_of({1, 2, 3});
  const auto leased = [](const BlockKey& k) { return k != key(1); };
  CHECK(policy->victim(leased, 10) == key(2));
  CHECK(policy->victim(always, 10) == key(1));
}

TEST_CASE("No more blocks are asked than stated") {
  const auto policy = policy_of({1, 2, 3});
  int asked = 0;
  const auto never = [&asked](const BlockKey&) {
    ++asked;
    return false;
  };
  CHECK_FALSE(policy->victim(never, 2));
  CHECK(asked == 2);
  CHECK_FALSE(policy->victim(never, 0));
  CHECK_FALSE(policy->victim(never, 100));
  CHECK(asked == 5);
}

TEST_CASE("The policy agrees with a plain list, whatever happens") {
  kvstrata::test::Random random(kvstrata::test::test_seed("lru_policy"));
  const auto policy = make_lru_policy();
  std::list<std::uint64_t> order;  // least recently used first
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t n = random.below(200);
    const auto at = std::find(order.begin(), order.end(), n);
    if (at == order.end()) {
      policy->inserted(key(n), 1);
      order.push_back(n);
    } else if (random.one_in(3)) {
      policy->removed(key(n));
      order.erase(at);
    } else {
      policy->touched(keys({n}));
      order.splice(order.end(), order, at);
    }
    REQUIRE(policy->size() == order.size());
    const auto victim = policy->victim(always, 1);
    REQUIRE(victim.has_value() == !order.empty());
    if (victim) REQUIRE(*victim == key(order.front()));
  }
}

}  // namespace kvstrata::hostmem::test
