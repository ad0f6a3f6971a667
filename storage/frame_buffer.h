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
  explicit FrameBuffer(std::uint64_t bytes) : memory_(bytes == 0 ? 0 : head_room_bytes + bytes) {}

  std::byte* data() const {
    return memory_.size() == 0 ? nullptr : memory_.data() + head_room_bytes;
  }
  std::uint64_t size() const { return memory_.size() == 0 ? 0 : memory_.size() - head_room_bytes; }
  MutableBytes bytes() const { return {data(), size()}; }

 private:
  AlignedBuffer memory_;
};

}  // namespace kvstrata::storage
