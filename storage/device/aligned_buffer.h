// An AlignedBuffer owns memory in whole units of io_alignment, fit for direct transfers. Its
// content starts undefined, because frames of megabytes are written whole anyway.
//
// Threads: plain memory. Lifetime: it must outlive the requests that use it.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"
#include "storage/device/io_request.h"

namespace kvstrata::storage {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Takes at least `bytes` bytes, rounded up to the alignment. Aborts when memory is exhausted;
  /// callers bound `bytes` first.
  explicit AlignedBuffer(std::uint64_t bytes) : size_(round_up(bytes, io_alignment)) {
    if (size_ == 0) return;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(io_alignment, size_)));
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

}  // namespace kvstrata::storage
