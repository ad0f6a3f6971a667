#include "hostmem/device_arena.h"

#include <unistd.h>

namespace kvstrata::hostmem {

std::vector<std::unique_ptr<DeviceArena>> discover_device_arenas(std::string& reason) {
  const bool has_driver = ::access("/dev/nvidiactl", F_OK) == 0;
  reason = "this build has no GPU back end";
  reason +=
      has_driver ? ", though an NVIDIA driver is loaded" : "; no NVIDIA driver is loaded either";
  reason += "; blocks are handed out from host memory";
  return {};
}

}  // namespace kvstrata::hostmem
