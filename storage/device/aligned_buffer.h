// An AlignedBuffer is zeroed memory of whole units of io_alignment, fit for direct transfers.
//
// Threads: plain memory. Lifetime: it must outlive the requests that use it.
#pragma once

#include <algorithm>
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
  /// `bytes` is rounded up to whole units. Running out of memory ends the process.
  explicit AlignedBuffer(std::uint64_t bytes)
      : bytes_(round_up(bytes, io_alignment)),
        memory_(static_cast<std::byte*>(std::aligned_alloc(io_alignment, bytes_))) {
    KV_CHECK(memory_ != nullptr || bytes_ == 0, "out of memory");
    std::fill_n(memory_.get(), bytes_, std::byte{0});
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)), memory_(std::move(other.memory_)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, 0);
    memory_ = std::move(other.memory_);
    return *this;
  }

  std::byte* data() const { return memory_.get(); }
  std::uint64_t size() const { return bytes_; }
  MutableBytes view() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* at) const { std::free(at); }  // NOLINT(*no-malloc)
  };

  std::uint64_t bytes_ = 0;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace kvstrata::storage
