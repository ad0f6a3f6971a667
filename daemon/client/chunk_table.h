// A ChunkTable is the shared memory one connection was given: mapped once per chunk, unmapped when
// the daemon wants it back and no view looks into it any more. One thread at a time.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/client/mapped_chunk.h"

namespace kvstrata::client {

/// Chunks of one connection; each costs a mapping, of which a process has 65,530 by default.
inline constexpr std::size_t chunks_max = 32'768;
inline constexpr std::size_t unmapped_per_message_max = 4096;

class ChunkTable {
 public:
  explicit ChunkTable(bool prefault) : prefault_(prefault) {}

  Status add(const protocol::ChunkAnnouncement& announced, const FileDescriptor& file);
  /// `protocol` if the daemon never sent it.
  Result<std::shared_ptr<MappedChunk>> find(std::uint64_t chunk) const;

  /// The daemon wants these back.
  void retire(std::span<const std::uint64_t> chunks);
  /// Retired ones that are unmapped by now, each told once, at most unmapped_per_message_max.
  std::vector<std::uint64_t> take_unmapped();

  /// The connection is gone: all views end, mappings go with their last view.
  void end_all();

 private:
  bool prefault_;
  std::unordered_map<std::uint64_t, std::shared_ptr<MappedChunk>> chunks_;
  std::vector<std::pair<std::uint64_t, std::weak_ptr<MappedChunk>>> retired_;
};

}  // namespace kvstrata::client
