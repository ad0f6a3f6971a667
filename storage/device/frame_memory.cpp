#include "storage/device/frame_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

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

constexpr std::uint64_t huge_page_bytes = 2_MiB;

// Nothing is backed by memory before it is touched. Null: no room.
std::byte* map_pool(std::uint64_t bytes) {
  const std::uint64_t mapped_bytes = bytes + huge_page_bytes;  // room to align
  void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uint64_t before = round_up(address, huge_page_bytes) - address;
  auto* const pool = static_cast<std::byte*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < huge_page_bytes) munmap(pool + bytes, huge_page_bytes - before);
  (void)madvise(pool, bytes, MADV_HUGEPAGE);  // small pages do as well, slower
  (void)madvise(pool, bytes, MADV_DONTDUMP);  // prompts don't belong in a core file
  return pool;
}

}  // namespace

FrameMemory& FrameMemory::instance() {
  static auto* memory = new FrameMemory;
  return *memory;
}

FrameMemory::FrameMemory() : pool_(map_pool(pool_bytes)) {
  if (pool_ != nullptr) ASAN_POISON_MEMORY_REGION(pool_, pool_bytes);
}

FrameMemory::~FrameMemory() {
  if (pool_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(pool_, pool_bytes);
  munmap(pool_, pool_bytes);
}

std::byte* FrameMemory::take(std::uint64_t bytes) {
  bytes = round_up(bytes, io_alignment);
  if (bytes >= pooled_bytes_min && refuses_ && refuses_(bytes)) return nullptr;
  if (bytes >= pooled_bytes_min && bytes <= pooled_bytes_max && pool_ != nullptr) {
    const std::size_t units = (bytes + unit_bytes - 1) / unit_bytes;
    if (std::byte* memory = take_pooled(units, bytes); memory != nullptr) return memory;
  }
  return static_cast<std::byte*>(std::aligned_alloc(io_alignment, bytes));
}

std::byte* FrameMemory::take_pooled(std::size_t units, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t first = find_free(units);
  if (first == unit_count) return nullptr;
  mark(true, first, units);
  used_units_ += units;
  touched_units_ = std::max(touched_units_, first + units);
  std::byte* const memory = pool_ + first * unit_bytes;
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  static_cast<void>(bytes);
  return memory;
}

void FrameMemory::give_back(std::byte* memory, std::uint64_t bytes) {
  if (!pooled(memory)) {
    std::free(memory);
    return;
  }
  const std::size_t units = (round_up(bytes, io_alignment) + unit_bytes - 1) / unit_bytes;
  const std::lock_guard lock(mutex_);
  ASAN_POISON_MEMORY_REGION(memory, units * unit_bytes);
  mark(false, static_cast<std::size_t>(memory - pool_) / unit_bytes, units);
  used_units_ -= units;
  if (used_units_ == 0) release_idle();
}

bool FrameMemory::pooled(const std::byte* memory) const {
  return pool_ != nullptr && memory >= pool_ && memory < pool_ + pool_bytes;
}

// The first place with room, so that as little of the pool as possible is ever touched; unit_count:
// there is none.
std::size_t FrameMemory::find_free(std::size_t units) const {
  std::size_t first = next(false, 0);
  while (first + units <= unit_count) {
    const std::size_t end = next(true, first);
    if (end - first >= units) return first;
    first = next(false, end);
  }
  return unit_count;
}

// The first unit at `from` or behind it that is in use, or is not.
std::size_t FrameMemory::next(bool used, std::size_t from) const {
  for (std::size_t unit = from; unit < unit_count;) {
    const std::uint64_t bits = used ? used_[unit / word_bits] : ~used_[unit / word_bits];
    const std::uint64_t rest = bits >> (unit % word_bits);
    if (rest != 0) return unit + static_cast<std::size_t>(std::countr_zero(rest));
    unit = (unit / word_bits + 1) * word_bits;
  }
  return unit_count;
}

void FrameMemory::mark(bool used, std::size_t first, std::size_t units) {
  for (std::size_t unit = first; unit < first + units; ++unit) {
    const std::uint64_t bit = std::uint64_t{1} << (unit % word_bits);
    if (used) {
      used_[unit / word_bits] |= bit;
    } else {
      used_[unit / word_bits] &= ~bit;
    }
  }
}

void FrameMemory::release_idle() {
  constexpr std::size_t idle_units = idle_bytes / unit_bytes;
  if (touched_units_ <= idle_units) return;
  (void)madvise(pool_ + idle_bytes, touched_units_ * unit_bytes - idle_bytes, MADV_DONTNEED);
  touched_units_ = idle_units;
}

std::uint64_t FrameMemory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_units_ * unit_bytes;
}

std::uint64_t FrameMemory::touched_bytes() const {
  const std::lock_guard lock(mutex_);
  return touched_units_ * unit_bytes;
}

Error no_frame_memory(std::uint64_t bytes) {
  return {ErrorKind::out_of_memory,
          "no memory for a frame of " + std::to_string(bytes) +
              " bytes: the machine or the daemon's cgroup (memory.max) has no more, or RLIMIT_AS "
              "(ulimit -v) is too low; give the daemon more, or [memory] size less"};
}

}  // namespace kvstrata::storage
