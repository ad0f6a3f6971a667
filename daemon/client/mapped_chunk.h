// A MappedChunk is this process's mapping of one chunk of the daemon (doc/shared-memory.md): read
// chunks to read from, staging chunks to write to. Nothing the daemon says about it is believed
// before it was checked against the file. Kept alive by views into it. One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "daemon/client/block_memory.h"
#include "daemon/client/file_descriptor.h"
#include "daemon/protocol/memory_body.h"
#include "hostmem/chunk_format.h"
#include "kvstrata/result.h"

namespace kvstrata::client {

class MappedChunk final : public BlockMemory {
 public:
  /// `unsupported` for another chunk version, `protocol` for a file that is not as announced.
  static Result<std::shared_ptr<MappedChunk>> map(const protocol::ChunkAnnouncement& announced,
                                                  const FileDescriptor& file, bool prefault);
  MappedChunk(const MappedChunk&) = delete;
  MappedChunk& operator=(const MappedChunk&) = delete;
  ~MappedChunk() override;

  protocol::ChunkKind kind() const { return kind_; }

  struct Place {
    std::uint32_t slot = 0;
    MutableBytes bytes;  ///< to be written only in staging chunks
  };
  /// `protocol` unless `offset` is where a slot begins and the slot has that many bytes. Takes the
  /// page faults of a slot that is seen for the first time.
  Result<Place> locate(std::uint64_t offset, std::uint64_t bytes);

  bool holds(std::uint32_t slot, std::uint64_t generation) const override;

  /// The connection is gone: nobody keeps the content of the slots in place any more.
  void end() { ended_ = true; }

 private:
  MappedChunk(protocol::ChunkKind kind, std::byte* data, std::uint64_t bytes)
      : kind_(kind), data_(data), mapped_bytes_(bytes) {}
  Status read_header(std::uint64_t chunk);
  void prefault(std::uint32_t slot);

  protocol::ChunkKind kind_;
  std::byte* data_;
  std::uint64_t mapped_bytes_;
  hostmem::ChunkShape shape_;
  std::vector<bool> faults_taken_;  // per slot; empty: not to be taken ahead
  bool ended_ = false;
};

}  // namespace kvstrata::client
