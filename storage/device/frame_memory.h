// FrameMemory is where buffers of frames come from and go back to: a pool in huge pages that stays
// mapped. Megabytes fresh from the kernel cost a fault and a zeroed page every 4 KiB, several times
// what reading them from disk costs; and of a direct transfer's own cost a third is pinning pages
// of 4 KiB, one by one.
//
// Threads: safe from any. Lifetime: that of the process is never destroyed, for buffers may outlive
// every static object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "kvstrata/result.h"

namespace kvstrata::storage {

class FrameMemory {
 public:
  /// Smaller buffers are left to malloc, larger ones are rare. So is what the pool has no room for.
  static constexpr std::uint64_t pooled_bytes_min = 64U << 10, pooled_bytes_max = 32U << 20;
  static constexpr std::uint64_t pool_bytes = 256U << 20;
  /// When no buffer is in use, the kernel gets back what the pool has touched beyond this.
  static constexpr std::uint64_t idle_bytes = 128U << 20;

  FrameMemory();
  ~FrameMemory();
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;
  /// That of the process.
  static FrameMemory& instance();

  /// Memory aligned to io_alignment, of at least `bytes` bytes, with any content; null when memory
  /// is exhausted.
  std::byte* take(std::uint64_t bytes);
  /// Test hook: called before memory for pooled_bytes_min or more is taken; true: there is none.
  /// Set while nobody takes any. May be empty.
  void set_refuses(std::function<bool(std::uint64_t bytes)> refuses) {
    refuses_ = std::move(refuses);
  }
  /// `bytes` as given to take().
  void give_back(std::byte* memory, std::uint64_t bytes);

  /// Of the pool: in buffers that are in use.
  std::uint64_t used_bytes() const;
  /// Of the pool: up to the last byte that was in use since the kernel got memory back.
  std::uint64_t touched_bytes() const;
  bool pooled(const std::byte* memory) const;

 private:
  static constexpr std::uint64_t unit_bytes = 32U << 10;
  static constexpr std::size_t unit_count = pool_bytes / unit_bytes;
  static constexpr std::size_t word_bits = 64;

  std::byte* take_pooled(std::size_t units, std::uint64_t bytes);
  std::size_t find_free(std::size_t units) const;
  std::size_t next(bool used, std::size_t from) const;
  void mark(bool used, std::size_t first, std::size_t units);
  void release_idle();

  std::byte* pool_ = nullptr;  // null: the kernel gave no room for it
  std::function<bool(std::uint64_t bytes)> refuses_;
  mutable std::mutex mutex_;
  std::array<std::uint64_t, unit_count / word_bits> used_{};  // a bit a unit
  std::size_t used_units_ = 0;
  std::size_t touched_units_ = 0;
};

/// What to tell when take() gave null.
Error no_frame_memory(std::uint64_t bytes);

}  // namespace kvstrata::storage
