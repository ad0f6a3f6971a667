// A FrameBuffer holds a frame on its way to disk, with room before it for the head of its record:
// so that head and frame are one write.
//
// Threads: plain memory. Lifetime: it must outlive the requests that use it.
#pragma once

#include "storage/device/aligned_buffer.h"

namespace kvstrata::storage {

class FrameBuffer {
 public:
  static constexpr std::uint64_t head_room_bytes = io_alignment;

  FrameBuffer() = default;
  /// Takes at least `bytes` bytes behind the room for the head; 0: no memory at all.
  /// `out_of_memory` when memory is exhausted.
  static Result<FrameBuffer> take(std::uint64_t bytes) {
    KV_ASSIGN(AlignedBuffer memory, AlignedBuffer::take(bytes == 0 ? 0 : head_room_bytes + bytes));
    return FrameBuffer(std::move(memory));
  }
  /// The same for tests: aborts when memory is exhausted.
  explicit FrameBuffer(std::uint64_t bytes) : FrameBuffer(take(bytes).value()) {}

  std::byte* data() const {
    return memory_.size() == 0 ? nullptr : memory_.data() + head_room_bytes;
  }
  std::uint64_t size() const { return memory_.size() == 0 ? 0 : memory_.size() - head_room_bytes; }
  MutableBytes bytes() const { return {data(), size()}; }

 private:
  explicit FrameBuffer(AlignedBuffer memory) : memory_(std::move(memory)) {}

  AlignedBuffer memory_;
};

}  // namespace kvstrata::storage
