#include "hostmem/device_arena.h"

#include <doctest/doctest.h>

namespace kvstrata::hostmem::test {

TEST_CASE("Without a GPU back end there are no device arenas, and the reason is given") {
  std::string reason;
  CHECK(discover_device_arenas(reason).empty());
  CHECK(reason.find("no GPU back end") != std::string::npos);
}

}  // namespace kvstrata::hostmem::test
