#include "tests/base/golden_keys.h"

#include <doctest/doctest.h>

#include <map>

namespace kvstrata::test {

namespace {

const std::vector<GoldenKeys>& golden_keys() {
  static const std::vector<GoldenKeys> keys = read_golden_keys(KVSTRATA_GOLDEN_KEYS);
  return keys;
}

const GoldenKeys& case_named(const std::string& name) {
  for (const GoldenKeys& keys : golden_keys()) {
    if (keys.name == name) return keys;
  }
  FAIL("no golden case is named " << name);
  return golden_keys().front();
}

}  // namespace

TEST_CASE("Every golden spec has its keys") {
  CHECK(golden_keys().size() >= 12);
  for (const GoldenKeys& keys : golden_keys()) {
    CAPTURE(keys.name);
    CHECK(validate(keys.spec.model).ok());
    CHECK(to_hex(namespace_bytes(keys.spec)) == keys.namespace_bytes);
    CHECK(namespace_hash(keys.spec).hex() == keys.namespace_hash);
    CHECK(keys.prefix_hashes.size() >= 2);
    CHECK(computed_prefix_hashes(keys) == keys.prefix_hashes);
    for (const OpaqueKey& opaque : keys.opaque_keys) {
      CHECK(opaque_hash(namespace_hash(keys.spec), as_bytes(opaque.key)).hex() == opaque.hash);
    }
  }
}

TEST_CASE("Absent and empty optional fields are the same") {
  const GoldenKeys& absent = case_named("absent optional fields");
  const GoldenKeys& empty = case_named("empty optional fields");
  CHECK(absent.namespace_hash == empty.namespace_hash);
  CHECK(absent.prefix_hashes == empty.prefix_hashes);
}

TEST_CASE("No two golden specs share a namespace, but those that mean the same") {
  std::map<std::string, std::string> names;
  for (const GoldenKeys& keys : golden_keys()) {
    if (keys.name == "empty optional fields") continue;
    const auto [at, is_new] = names.emplace(keys.namespace_hash, keys.name);
    CHECK_MESSAGE(is_new, keys.name << " and " << at->second);
  }
}

}  // namespace kvstrata::test
