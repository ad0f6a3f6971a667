// A Chunk is one memfd of slots of one size for one tenant, with its control area. It knows which
// slots are used and keeps their generations.
//
// Threads: control thread only; the generations may be read by anybody who maps the file.
#pragma once

#include <cstdint>
#include <vector>

#include "hostmem/arena.h"
#include "hostmem/chunk_format.h"
#include "hostmem/shared_memory.h"

namespace kvstrata::hostmem {

class Chunk {
 public:
  struct Identity {
    ChunkId id;
    ChunkKind kind = ChunkKind::read;
    TenantId tenant;
    ConnectionId owner;  ///< of a staging chunk
  };

  /// Writes the control area, then seals. `memory` is zero and exactly as long as the shape says.
  static Result<Chunk> create(const Identity& identity, ChunkShape shape, SharedMemory memory);

  /// A free slot (there must be one), its generation odd.
  Slot allocate();
  void publish(Slot& slot);
  /// Aborts if `slot` is not used, or was freed and given out again since.
  void free_slot(const Slot& slot);

  const Identity& identity() const { return identity_; }
  const ChunkShape& shape() const { return shape_; }
  ChunkInfo info() const;
  std::vector<std::uint32_t> used_slots() const;
  std::uint32_t used() const { return shape_.slots - static_cast<std::uint32_t>(free_.size()); }
  bool has_free() const { return !free_.empty(); }
  bool empty() const { return free_.size() == shape_.slots; }

 private:
  Chunk(const Identity& identity, ChunkShape shape, SharedMemory memory);
  void write_control_area();
  void check_held(const Slot& slot) const;
  std::uint64_t& generation(std::uint32_t index) const;

  Identity identity_;
  ChunkShape shape_;
  SharedMemory memory_;
  std::vector<std::uint32_t> free_;  ///< a stack: what was freed last is warm
  std::vector<bool> used_;
};

}  // namespace kvstrata::hostmem
