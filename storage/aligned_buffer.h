// An AlignedBuffer owns memory that O_DIRECT accepts: aligned to 4096 bytes. Movable, not copyable;
// its content starts undefined, because frames of megabytes are written whole anyway.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"

namespace kvstrata::storage {

// The device layer has a zeroed buffer of the same name for its own use; this keeps their symbols
// apart.
inline namespace frames {

class AlignedBuffer {
 public:
  static constexpr std::uint64_t alignment = 4096;

  AlignedBuffer() = default;
  /// Takes at least `bytes` bytes, rounded up to the alignment. Aborts when memory is exhausted;
  /// callers bound `bytes` first.
  explicit AlignedBuffer(std::uint64_t bytes) : size_(round_up(bytes, alignment)) {
    if (size_ == 0) return;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size_)));
    KV_CHECK(memory_ != nullptr, "out of memory");
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::byte* data() const { return memory_.get(); }
  std::uint64_t size() const { return size_; }
  MutableBytes bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::uint64_t size_ = 0;
};

}  // namespace frames
}  // namespace kvstrata::storage
