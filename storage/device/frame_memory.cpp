#include "storage/device/frame_memory.h"

#include <bit>
#include <cstdlib>

#include "kvstrata/bytes.h"
#include "storage/device/io_request.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KV_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KV_ADDRESS_SANITIZER 1
#endif
#ifdef KV_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) static_cast<void>(0)
#endif

namespace kvstrata::storage {

namespace {

constexpr int least_power = std::countr_zero(FrameMemory::kept_bytes_min);

bool is_kept(std::uint64_t bytes) {
  return bytes >= FrameMemory::kept_bytes_min && bytes <= FrameMemory::kept_bytes_max;
}

// The sizes are 4/4, 5/4, 6/4 and 7/4 of each power of two.
std::size_t size_index(std::uint64_t bytes) {
  const int power = 63 - std::countl_zero(bytes);
  const std::uint64_t quarter = std::uint64_t{1} << (power - 2);
  const std::uint64_t quarters = (bytes + quarter - 1) / quarter;  // 4 to 8
  return static_cast<std::size_t>(4 * (power - least_power)) + quarters - 4;
}

std::uint64_t size_at(std::size_t index) {
  return (4 + index % 4) << (static_cast<std::size_t>(least_power) - 2 + index / 4);
}

}  // namespace

FrameMemory& FrameMemory::instance() {
  static auto* memory = new FrameMemory;
  return *memory;
}

FrameMemory::~FrameMemory() {
  while (kept_bytes_ > 0) free_oldest();
}

std::byte* FrameMemory::take(std::uint64_t bytes) {
  std::uint64_t size = round_up(bytes, io_alignment);
  if (is_kept(size)) {
    const std::size_t index = size_index(size);
    size = size_at(index);
    const std::lock_guard lock(mutex_);
    if (auto& kept = kept_[index]; !kept.empty()) {
      std::byte* memory = kept.back().memory;
      kept.pop_back();
      kept_bytes_ -= size;
      ASAN_UNPOISON_MEMORY_REGION(memory, size);
      return memory;
    }
  }
  return static_cast<std::byte*>(std::aligned_alloc(io_alignment, size));
}

void FrameMemory::give_back(std::byte* memory, std::uint64_t bytes) {
  bytes = round_up(bytes, io_alignment);
  if (!is_kept(bytes)) {
    std::free(memory);
    return;
  }
  const std::size_t index = size_index(bytes);
  const std::lock_guard lock(mutex_);
  kept_[index].push_back({memory, next_number_++});
  kept_bytes_ += size_at(index);
  ASAN_POISON_MEMORY_REGION(memory, size_at(index));
  while (kept_bytes_ > total_bytes_max) free_oldest();
}

void FrameMemory::free_oldest() {
  std::size_t oldest = size_count;
  for (std::size_t i = 0; i < size_count; ++i) {
    if (kept_[i].empty()) continue;
    if (oldest == size_count || kept_[i].front().number < kept_[oldest].front().number) oldest = i;
  }
  std::byte* memory = kept_[oldest].front().memory;
  kept_[oldest].pop_front();
  kept_bytes_ -= size_at(oldest);
  ASAN_UNPOISON_MEMORY_REGION(memory, size_at(oldest));
  std::free(memory);
}

std::uint64_t FrameMemory::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace kvstrata::storage
