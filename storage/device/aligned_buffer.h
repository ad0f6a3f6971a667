// An AlignedBuffer owns memory in whole units of io_alignment, fit for direct transfers. Its
// content starts undefined (what an earlier frame left there), because frames of megabytes are
// written whole anyway.
//
// Threads: plain memory. Lifetime: it must outlive the requests that use it.
#pragma once

#include <utility>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"
#include "kvstrata/result.h"
#include "storage/device/frame_memory.h"
#include "storage/device/io_request.h"

namespace kvstrata::storage {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Takes at least `bytes` bytes, rounded up to the alignment; callers bound `bytes` first.
  /// `out_of_memory` when memory is exhausted.
  static Result<AlignedBuffer> take(std::uint64_t bytes) {
    AlignedBuffer buffer;
    const std::uint64_t size = round_up(bytes, io_alignment);
    if (size == 0) return buffer;
    buffer.memory_ = FrameMemory::instance().take(size);
    if (buffer.memory_ == nullptr) return no_frame_memory(size);
    buffer.size_ = size;
    return buffer;
  }
  /// The same for pages: aborts when memory is exhausted, as the smallest allocations do.
  explicit AlignedBuffer(std::uint64_t bytes) : AlignedBuffer(take(bytes).value()) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    const AlignedBuffer freed(std::move(*this));
    memory_ = std::exchange(other.memory_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~AlignedBuffer() {
    if (memory_ != nullptr) FrameMemory::instance().give_back(memory_, size_);
  }

  std::byte* data() const { return memory_; }
  std::uint64_t size() const { return size_; }
  MutableBytes bytes() const { return {memory_, size_}; }

 private:
  std::byte* memory_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace kvstrata::storage
