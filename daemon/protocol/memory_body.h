// Shared memory on the wire: refs, staging slots and the chunks announced with their descriptors.
// Stateless; any thread.
#pragma once

#include <vector>

#include "daemon/protocol/body.h"

namespace kvstrata::protocol {

enum class ChunkKind : std::uint8_t { read = 1, staging = 2 };

/// A chunk whose descriptor comes with the message, in this order.
struct ChunkAnnouncement {
  std::uint64_t chunk = 0;
  ChunkKind kind = ChunkKind::read;
  std::uint64_t file_bytes = 0;

  friend bool operator==(const ChunkAnnouncement&, const ChunkAnnouncement&) = default;
};

void set_refs(Body& body, std::span<const BlockRef> refs);                      ///< `refs`
void set_slots(Body& body, std::span<const StagingRef> slots);                  ///< `slots`
void set_chunks(Body& body, std::span<const ChunkAnnouncement> announcements);  ///< `chunks`

Result<std::vector<BlockRef>> get_refs(const Body& body);
Result<std::vector<StagingRef>> get_slots(const Body& body);
Result<std::vector<ChunkAnnouncement>> get_chunks(const Body& body);  ///< absent: none

}  // namespace kvstrata::protocol
