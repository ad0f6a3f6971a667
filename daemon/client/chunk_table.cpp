#include "daemon/client/chunk_table.h"

#include <string>

namespace kvstrata::client {

Status ChunkTable::add(const protocol::ChunkAnnouncement& announced, const FileDescriptor& file) {
  if (chunks_.contains(announced.chunk) || chunks_.size() >= chunks_max) {
    return Error(ErrorKind::protocol, "the daemon sent a chunk twice, or too many of them");
  }
  KV_ASSIGN(auto chunk, MappedChunk::map(announced, file, prefault_));
  chunks_.emplace(announced.chunk, std::move(chunk));
  return {};
}

Result<std::shared_ptr<MappedChunk>> ChunkTable::find(std::uint64_t chunk) const {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) {
    return Error(ErrorKind::protocol,
                 "the daemon named chunk " + std::to_string(chunk) + ", which it did not send");
  }
  return found->second;
}

void ChunkTable::retire(std::span<const std::uint64_t> chunks) {
  for (const std::uint64_t chunk : chunks) {
    const auto found = chunks_.find(chunk);
    if (found == chunks_.end()) continue;
    retired_.emplace_back(chunk, found->second);
    chunks_.erase(found);
  }
}

std::vector<std::uint64_t> ChunkTable::take_unmapped() {
  std::vector<std::uint64_t> unmapped;
  std::erase_if(retired_, [&](const auto& entry) {
    if (unmapped.size() == unmapped_per_message_max || !entry.second.expired()) return false;
    unmapped.push_back(entry.first);
    return true;
  });
  return unmapped;
}

void ChunkTable::end_all() {
  for (const auto& [id, chunk] : chunks_) chunk->end();
  for (const auto& [id, weak] : retired_) {
    if (const auto chunk = weak.lock()) chunk->end();
  }
  chunks_.clear();
  retired_.clear();
}

}  // namespace kvstrata::client
