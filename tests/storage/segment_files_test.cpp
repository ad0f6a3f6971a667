// Files of segments come and go for good.
#include "storage/segment_files.h"

#include <doctest/doctest.h>

#include "storage/device/memory_device.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

TEST_CASE("A removed segment file stays removed through every power cut") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    MemoryDevice device(std::make_shared<MemoryDisk>(16_MiB));
    {
      SegmentFiles files(device, 4);
      REQUIRE(files.create(SegmentId{7}, 64_KiB).ok());
      REQUIRE(files.remove(SegmentId{7}).ok());
    }
    std::mt19937_64 random(seed);
    device.crash(random);
    CHECK(MemoryDevice(device.disk()).list().value().empty());
  }
}

}  // namespace kvstrata::storage
