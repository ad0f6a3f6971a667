// The chunk format: what the daemon writes and clients read in a chunk's file, byte by byte.
// Prose, example and the reader's protocol: doc/shared-memory.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kvstrata/bytes.h"
#include "kvstrata/model.h"

namespace kvstrata::hostmem {

inline constexpr std::array<char, 8> chunk_magic{'K', 'V', 'S', 'C', 'H', 'U', 'N', 'K'};
inline constexpr std::uint32_t chunk_version = 1;
inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::uint64_t slot_bytes_max = block_bytes_max;

struct ChunkHeader {
  std::array<char, 8> magic = chunk_magic;
  std::uint32_t version = chunk_version;
  std::uint32_t zero_1 = 0;
  std::uint64_t chunk_id = 0;
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t zero_2 = 0;
  std::uint64_t data_offset = 0;
  std::array<std::uint64_t, 2> zero_3{};
};
static_assert(sizeof(ChunkHeader) == 64);
static_assert(offsetof(ChunkHeader, slots) == 32 && offsetof(ChunkHeader, data_offset) == 40);

/// Where everything is in a chunk of `slots` slots of `slot_bytes`.
struct ChunkShape {
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;

  constexpr std::uint64_t data_offset() const {
    return round_up(sizeof(ChunkHeader) + std::uint64_t{slots} * sizeof(std::uint64_t), page_bytes);
  }
  constexpr std::uint64_t slot_offset(std::uint32_t slot) const {
    return data_offset() + slot * slot_bytes;
  }
  constexpr std::uint64_t file_bytes() const { return slot_offset(slots); }
};

/// The slot size that serves blocks of `bytes`.
constexpr std::uint64_t slot_bytes_for(std::uint64_t bytes) {
  return round_up(bytes == 0 ? 1 : bytes, page_bytes);
}

/// A slot's generation is even while it holds a published content, odd while free or being written.
inline constexpr std::uint64_t first_generation = 1;
constexpr bool is_published(std::uint64_t generation) {
  return generation % 2 == 0;
}
/// Counts the contents of a slot: the same before and after publishing, another after freeing.
constexpr std::uint64_t content_number(std::uint64_t generation) {
  return (generation + 1) / 2;
}
/// The generation a slot has after the content of `generation`, published or not, was freed.
constexpr std::uint64_t generation_after_free(std::uint64_t generation) {
  return 2 * content_number(generation) + 1;
}

}  // namespace kvstrata::hostmem
