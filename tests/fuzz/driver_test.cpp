// A target that fails for inputs the driver must reach: its test is expected to fail.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kvstrata/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  KV_CHECK(std::count(data, data + size, 0xffU) < 3, "found, as the test expects");
  return 0;
}
