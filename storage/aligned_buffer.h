// An AlignedBuffer owns memory that O_DIRECT accepts: aligned to 4096 bytes. Movable, not copyable;
// its content starts undefined.
#pragma once

#include <cstdlib>
#include <memory>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"

namespace kvstrata::storage {

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

}  // namespace kvstrata::storage
