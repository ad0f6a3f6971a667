// A DeviceArena is the GPU tier's counterpart of HostArena: slots in device memory, exported to
// local clients by handle. This build has no GPU back end; discover_device_arenas() says why, and
// the daemon runs with none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvstrata/id.h"
#include "kvstrata/result.h"

namespace kvstrata::hostmem {

/// A slot in device memory. `address` is a device pointer, never dereferenced on the host.
struct DeviceSlot {
  ChunkId chunk;
  std::uint32_t index = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t generation = 0;
};

class DeviceArena {
 public:
  virtual ~DeviceArena() = default;

  virtual Result<DeviceSlot> allocate(TenantId tenant, std::uint64_t bytes) = 0;
  virtual void free_slot(const DeviceSlot& slot) = 0;
  /// Bytes another process needs to open the chunk (CUDA IPC handle); one tenant's only.
  virtual Result<std::vector<std::byte>> export_handle(ChunkId chunk, TenantId tenant) = 0;
  virtual std::uint64_t budget_bytes() const = 0;
  virtual std::string device_name() const = 0;
};

/// The arenas of this machine's usable GPUs. `reason` says why there are none, for `doctor`.
std::vector<std::unique_ptr<DeviceArena>> discover_device_arenas(std::string& reason);

}  // namespace kvstrata::hostmem
