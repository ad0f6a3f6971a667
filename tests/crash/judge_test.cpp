// The judge of the crash loop is judged first: each thing it counts can be counted.
#include "judge.h"

#include <doctest/doctest.h>

#include "items.h"

namespace kvstrata::test {

namespace {
const KeyState durable{.may_exist = true, .durable = true};
const KeyState pinned{.may_exist = true, .durable = true, .pinned = true};
}  // namespace

TEST_CASE("A durable key that is missing was evicted, unless it was pinned or is too young") {
  CHECK(judge(durable, Seen::missing, false) == Verdict::evicted);
  CHECK(judge(durable, Seen::missing, true) == Verdict::lost);
  CHECK(judge(pinned, Seen::missing, false) == Verdict::lost);
  CHECK(judge({.may_exist = true}, Seen::missing, true) == Verdict::fine);
}

TEST_CASE("A key that was never put, or was removed, must not be found") {
  CHECK(judge({}, Seen::own_bytes, false) == Verdict::phantom);
  CHECK(judge({.may_exist = true, .removed = true}, Seen::own_bytes, false) == Verdict::phantom);
  CHECK(judge({.may_exist = true}, Seen::own_bytes, false) == Verdict::fine);
  CHECK(judge({}, Seen::missing, false) == Verdict::fine);
}

TEST_CASE("What the other tenant put must never be seen, whatever its bytes are") {
  CHECK(judge(durable, Seen::bytes_of_other_tenant, false) == Verdict::cross_tenant);
  CHECK(judge({.foreign = true}, Seen::own_bytes, false) == Verdict::cross_tenant);
}

TEST_CASE("Other bytes than those of the key are corrupt, whatever is known of it") {
  CHECK(judge(durable, Seen::wrong_bytes, false) == Verdict::corrupt);
  CHECK(judge({}, Seen::wrong_bytes, false) == Verdict::corrupt);
}

TEST_CASE("Tenants put different bytes under the same name, and each leaves some to the other") {
  const auto red = items_of_thread(0, 0);
  const auto blue = items_of_thread(1, 0);
  REQUIRE(red.size() == blue.size());
  for (std::size_t i = 0; i < red.size(); ++i) {
    CHECK(red[i].name() == blue[i].name());
    CHECK(red[i].content("red", 0) != blue[i].content("blue", 0));
    CHECK_FALSE((red[i].keys[0].foreign && blue[i].keys[0].foreign));
    CHECK((red[i].number % 2 == 0) == (red[i].keys[0].foreign == blue[i].keys[0].foreign));
  }
}

}  // namespace kvstrata::test
