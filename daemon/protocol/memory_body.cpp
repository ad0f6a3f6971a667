#include "daemon/protocol/memory_body.h"

#include <type_traits>

namespace kvstrata::protocol {

namespace {

/// An array of fixed-size structs that are their own wire format.
template <typename T>
Result<std::vector<T>> get_structs(const Body& body, std::string_view key) {
  static_assert(std::is_trivially_copyable_v<T>);
  KV_ASSIGN(const ByteView bytes, body.get_bytes(key, sizeof(T) * blocks_per_request_max));
  if (bytes.size() % sizeof(T) != 0) {
    return Error(ErrorKind::invalid_argument, "field '" + std::string(key) + "' must hold " +
                                                  std::to_string(sizeof(T)) + " bytes an entry");
  }
  std::vector<T> items(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
  return items;
}

}  // namespace

void set_refs(Body& body, std::span<const BlockRef> refs) {
  body.set_bytes("refs", bytes_of(refs));
}

void set_slots(Body& body, std::span<const StagingRef> slots) {
  body.set_bytes("slots", bytes_of(slots));
}

void set_chunks(Body& body, std::span<const ChunkAnnouncement> announcements) {
  std::vector<std::vector<std::uint64_t>> rows;
  for (const auto& announced : announcements) {
    rows.push_back(
        {announced.chunk, static_cast<std::uint64_t>(announced.kind), announced.file_bytes});
  }
  body.set_rows("chunks", rows);
}

Result<std::vector<BlockRef>> get_refs(const Body& body) {
  return get_structs<BlockRef>(body, "refs");
}

Result<std::vector<StagingRef>> get_slots(const Body& body) {
  return get_structs<StagingRef>(body, "slots");
}

Result<std::vector<ChunkAnnouncement>> get_chunks(const Body& body) {
  std::vector<ChunkAnnouncement> announcements;
  if (!body.has("chunks")) return announcements;
  KV_ASSIGN(const auto rows, body.get_rows("chunks", descriptors_per_message_max, 3));
  for (const auto& row : rows) {
    if (row[1] != 1 && row[1] != 2) {
      return Error(ErrorKind::invalid_argument,
                   "field 'chunks' must name kind 1 (read) or 2 (staging)");
    }
    announcements.push_back({row[0], static_cast<ChunkKind>(row[1]), row[2]});
  }
  return announcements;
}

}  // namespace kvstrata::protocol
