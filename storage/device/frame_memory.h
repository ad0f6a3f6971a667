// FrameMemory is where buffers of frames come from and go back to. Megabytes fresh from the kernel
// cost a fault and a zeroed page every 4 KiB, which is several times what reading them from disk
// costs; so a few freed buffers are kept, as they are, for the next ones.
//
// Threads: safe from any. Lifetime: that of the process is never destroyed, for buffers may outlive
// every static object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace kvstrata::storage {

class FrameMemory {
 public:
  /// Smaller buffers are left to malloc, larger ones are rare.
  static constexpr std::uint64_t kept_bytes_min = 64U << 10, kept_bytes_max = 32U << 20;
  /// Of all buffers that are kept; the ones unused for longest go first.
  static constexpr std::uint64_t total_bytes_max = 128U << 20;

  FrameMemory() = default;
  ~FrameMemory();
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;
  /// That of the process.
  static FrameMemory& instance();

  /// Memory aligned to io_alignment, of at least `bytes` bytes, with any content; null when memory
  /// is exhausted.
  std::byte* take(std::uint64_t bytes);
  /// `bytes` as given to take().
  void give_back(std::byte* memory, std::uint64_t bytes);
  std::uint64_t kept_bytes() const;

 private:
  // Four sizes for each power of two, so that a buffer is at most a quarter too large.
  static constexpr std::size_t size_count = 4 * 9 + 1;
  struct Kept {
    std::byte* memory = nullptr;
    std::uint64_t number = 0;  // rises with each one given back
  };

  void free_oldest();

  mutable std::mutex mutex_;
  std::array<std::deque<Kept>, size_count> kept_;  // of each size, the oldest in front
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t next_number_ = 0;
};

}  // namespace kvstrata::storage
