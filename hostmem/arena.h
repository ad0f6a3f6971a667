// A HostArena hands out slots of shared memory for decoded blocks, within one byte budget. Chunks
// are memfds that hold slots of one size for one tenant; clients map them read-only.
// Layout of a chunk, and what a client checks: doc/shared-memory.md.
//
// Threads: all methods on the daemon's control thread, except that the bytes of a slot may be
// written and read by any thread that was handed the slot. Lifetime: outlives every slot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hostmem/memory_system.h"
#include "kvstrata/bytes.h"
#include "kvstrata/clock.h"
#include "kvstrata/id.h"
#include "kvstrata/result.h"

namespace kvstrata::hostmem {

/// read: sealed, clients map it read-only. staging: owned by one connection, which writes it.
enum class ChunkKind : std::uint8_t { read = 1, staging = 2 };

/// A place for one block. Plain data; valid until free_slot(). `generation` is what the chunk's
/// control area says while this content stays.
struct Slot {
  ChunkId chunk;
  std::uint32_t index = 0;
  std::uint64_t offset = 0;  ///< of the first byte in the chunk's file
  std::uint64_t bytes = 0;   ///< usable
  std::uint64_t generation = 0;
  std::byte* data = nullptr;  ///< the daemon's mapping
};

/// What a client needs to map a chunk.
struct ChunkInfo {
  ChunkId id;
  ChunkKind kind = ChunkKind::read;
  TenantId tenant;
  std::uint64_t file_bytes = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  int fd = -1;  ///< borrowed
};

struct ArenaOptions {
  std::uint64_t budget_bytes = 0;  ///< chunks, zombies and prefaulted memory; at least 16 MiB
  /// Target for read chunks, at most an eighth of the budget; a quarter of it for staging chunks;
  /// one slot at least. Each chunk costs a file descriptor here and in each client.
  std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
  bool lock_memory = false;  ///< mlock, the whole budget or nothing; failure is said, not fatal
  bool huge_pages = true;    ///< madvise where the kernel allows
  const Clock* clock = &Clock::system();
  /// Where memory comes from; tests give one that refuses some.
  const MemorySystem* system = &MemorySystem::kernel();
};

struct ArenaStats {
  std::uint64_t budget_bytes = 0;
  std::uint64_t chunk_bytes = 0;  ///< read and staging chunks that are alive
  std::uint64_t slot_bytes_used = 0;
  std::uint64_t zombie_bytes = 0;  ///< closed here, still mapped by a client
  std::uint64_t staging_bytes = 0;
  std::uint64_t chunks = 0;
  std::uint64_t slots_used = 0, slots_free = 0, slots_total = 0;  ///< used + free = total
  std::uint64_t prefaulted_bytes = 0;  ///< made ahead and not adopted yet; part of the budget
  std::string lock_note;  ///< empty: as asked; else which limit is too low and what was done
  /// Chunks within the budget that the system would not give; and why it refused the last one.
  std::uint64_t refused_chunks = 0;
  std::string refusal_note;
};

class HostArena {
 public:
  static Result<std::unique_ptr<HostArena>> create(ArenaOptions options);
  virtual ~HostArena() = default;

  /// A slot of at least `bytes` in a read chunk of `tenant`, its generation odd (being written)
  /// until publish(). `out_of_memory` when nothing is free and the budget has no room for another
  /// chunk, or the system refuses one: evict and try again. `too_large` above 1 GiB.
  virtual Result<Slot> allocate(TenantId tenant, std::uint64_t bytes) = 0;
  /// The content is complete: the generation becomes even and is returned in `slot`.
  virtual void publish(Slot& slot) = 0;
  /// Gives the slot back; its generation moves on, so old readers notice. Freeing twice aborts.
  virtual void free_slot(const Slot& slot) = 0;

  /// Within a tenant, freeing a slot of one length can serve another exactly if both have the same
  /// size class.
  virtual std::uint64_t size_class(std::uint64_t bytes) const = 0;

  /// A staging slot in a chunk that only `owner` ever gets. Staging counts towards the budget.
  virtual Result<Slot> allocate_staging(TenantId tenant, ConnectionId owner,
                                        std::uint64_t bytes) = 0;
  virtual void free_staging(const Slot& slot) = 0;

  /// Every chunk a client was sent is remembered until it says it unmapped it or disconnects.
  virtual void chunk_sent(ChunkId chunk, ConnectionId to) = 0;
  virtual void chunk_unmapped(ChunkId chunk, ConnectionId by) = 0;
  /// Frees the connection's staging chunks with all their slots and forgets its mappings. Call it
  /// when nothing reads the staging slots any more: their memory is unmapped.
  virtual void connection_closed(ConnectionId connection) = 0;

  /// Closes chunks without used slots until `bytes` could be allocated for `tenant` or none is
  /// left: first those no client maps, then the others, longest empty first. Chunks still mapped by
  /// clients become zombies and are returned: the daemon asks those clients to unmap. Zombies count
  /// as room to come, so a second call does not retire more for the same need.
  struct Retired {
    ChunkId chunk;
    std::vector<ConnectionId> mapped_by;
  };
  virtual std::vector<Retired> retire_empty_chunks(TenantId tenant, std::uint64_t bytes) = 0;
  /// The same until a staging chunk for `bytes` could be made; for when allocate_staging() failed.
  virtual std::vector<Retired> retire_empty_chunks_for_staging(std::uint64_t bytes) = 0;
  /// Connections that still map a chunk retired before `before`: they are to be disconnected.
  virtual std::vector<ConnectionId> overdue(MonotonicTime before) const = 0;

  /// None for closed chunks, zombies included.
  virtual std::optional<ChunkInfo> find_chunk(ChunkId chunk) const = 0;
  /// Which slots of the chunk are used.
  virtual std::vector<std::uint32_t> used_slots(ChunkId chunk) const = 0;

  /// Creates up to `bytes` of chunk memory ahead and touches its pages on a background thread, so
  /// that first puts don't pay for page faults. The memory is adopted by whoever allocates first.
  virtual void prefault(std::uint64_t bytes) = 0;

  virtual ArenaStats stats() const = 0;
  /// As in stats(). Rises when allocate() fails for the system's sake, not for the budget's.
  virtual std::uint64_t refused_chunks() const = 0;
};

}  // namespace kvstrata::hostmem
