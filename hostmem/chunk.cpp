#include "hostmem/chunk.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace kvstrata::hostmem {

using Generation = std::atomic_ref<std::uint64_t>;
static_assert(Generation::is_always_lock_free, "clients share the words, not a lock");

Result<Chunk> Chunk::create(const Identity& identity, ChunkShape shape, SharedMemory memory) {
  KV_CHECK(memory.bytes() == shape.file_bytes(), "a chunk's file has exactly its shape's length");
  Chunk chunk(identity, shape, std::move(memory));
  chunk.write_control_area();
  KV_TRY(identity.kind == ChunkKind::read ? chunk.memory_.seal_for_readers()
                                          : chunk.memory_.seal_size());
  return chunk;
}

Chunk::Chunk(const Identity& identity, ChunkShape shape, SharedMemory memory)
    : identity_(identity), shape_(shape), memory_(std::move(memory)), used_(shape.slots, false) {
  free_.reserve(shape.slots);
  for (std::uint32_t slot = shape.slots; slot-- > 0;) free_.push_back(slot);
}

void Chunk::write_control_area() {
  ChunkHeader header;
  header.chunk_id = identity_.id.value;
  header.slot_bytes = shape_.slot_bytes;
  header.slots = shape_.slots;
  header.data_offset = shape_.data_offset();
  std::memcpy(memory_.data(), &header, sizeof header);
  for (std::uint32_t slot = 0; slot < shape_.slots; ++slot) {
    Generation(generation(slot)).store(first_generation, std::memory_order_relaxed);
  }
}

std::uint64_t& Chunk::generation(std::uint32_t index) const {
  std::byte* words = memory_.data() + sizeof(ChunkHeader);
  return reinterpret_cast<std::uint64_t*>(words)[index];
}

Slot Chunk::allocate() {
  KV_CHECK(has_free(), "allocate() from a chunk without a free slot");
  const std::uint32_t index = free_.back();
  free_.pop_back();
  used_[index] = true;
  Slot slot;
  slot.chunk = identity_.id;
  slot.index = index;
  slot.offset = shape_.slot_offset(index);
  slot.bytes = shape_.slot_bytes;
  slot.generation = Generation(generation(index)).load(std::memory_order_relaxed);
  slot.data = memory_.data() + slot.offset;
  return slot;
}

void Chunk::check_held(const Slot& slot) const {
  KV_CHECK(slot.index < shape_.slots, "a slot beyond its chunk");
  KV_CHECK(used_[slot.index], "a slot that is free already");
  const std::uint64_t now = Generation(generation(slot.index)).load(std::memory_order_relaxed);
  KV_CHECK(content_number(now) == content_number(slot.generation),
           "a slot that was freed and given out again");
}

void Chunk::publish(Slot& slot) {
  check_held(slot);
  KV_CHECK(identity_.kind == ChunkKind::read, "only slots of read chunks are published");
  Generation word(generation(slot.index));
  KV_CHECK(!is_published(word.load(std::memory_order_relaxed)), "a slot is published once");
  slot.generation = 2 * content_number(slot.generation);
  word.store(slot.generation, std::memory_order_release);
}

void Chunk::free_slot(const Slot& slot) {
  check_held(slot);
  Generation(generation(slot.index))
      .store(generation_after_free(slot.generation), std::memory_order_relaxed);
  // Whoever sees a byte of the next content must see the generation move on too.
  std::atomic_thread_fence(std::memory_order_release);
  used_[slot.index] = false;
  free_.push_back(slot.index);
}

ChunkInfo Chunk::info() const {
  return {identity_.id,      identity_.kind, identity_.tenant, shape_.file_bytes(),
          shape_.slot_bytes, shape_.slots,   memory_.fd()};
}

std::vector<std::uint32_t> Chunk::used_slots() const {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < shape_.slots; ++slot) {
    if (used_[slot]) slots.push_back(slot);
  }
  return slots;
}

}  // namespace kvstrata::hostmem
