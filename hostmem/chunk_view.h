// A ChunkView is a client's read-only mapping of a chunk. It copies blocks out and notices when a
// slot was given to another content meanwhile (doc/shared-memory.md, "Generations").
//
// Threads: any number may read at once. Lifetime: the mapping lives as long as the view, whatever
// the daemon does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hostmem/chunk_format.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::hostmem {

class ChunkView {
 public:
  /// Maps `fd`, which stays the caller's. `corrupt` if it is not a chunk, `unsupported` if it is
  /// one of another version.
  static Result<ChunkView> map(int fd);

  ChunkView(ChunkView&& other) noexcept;
  ChunkView& operator=(ChunkView&& other) noexcept;
  ChunkView(const ChunkView&) = delete;
  ChunkView& operator=(const ChunkView&) = delete;
  ~ChunkView();

  std::uint64_t chunk_id() const { return chunk_id_; }
  const ChunkShape& shape() const { return shape_; }

  /// Calls `use` with the slot's bytes where they lie. `lease_expired` if the slot does not hold
  /// the content of `generation` from before to after the call; then what `use` made of it is
  /// worthless.
  template <typename Use>
  Status read(std::uint32_t slot, std::uint64_t generation, Use use) const {
    KV_TRY(check(slot, generation));
    use(bytes(slot));
    return check(slot, generation);
  }
  /// Fills `out` from the slot's first bytes; errors as read().
  Status copy_out(std::uint32_t slot, std::uint64_t generation, MutableBytes out) const;

  /// The two halves of read(), for views that outlive a call: bytes() may be used between two calls
  /// of check() that both say ok.
  Status check(std::uint32_t slot, std::uint64_t generation) const;
  ByteView bytes(std::uint32_t slot) const;

 private:
  ChunkView(const std::byte* data, std::uint64_t bytes) : data_(data), mapped_bytes_(bytes) {}
  Status read_header();
  void unmap();

  const std::byte* data_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t chunk_id_ = 0;
  ChunkShape shape_;
};

}  // namespace kvstrata::hostmem
