// A GuardedVector is a vector whose memory ends where a page begins that may not be touched: who
// goes beyond it dies of it, with whatever instruction. Sanitizers don't see all of them. Memory
// before it is not to be written to either.
//
// That is so for a vector made with its size, or after shrink_to_fit(): one that grew has room
// left.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kvstrata/check.h"

namespace kvstrata::test {

template <typename T>
class GuardedAllocator {
 public:
  using value_type = T;

  GuardedAllocator() = default;
  template <typename U>
  GuardedAllocator(const GuardedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    const std::size_t bytes = pages_for(count);
    void* const memory = ::mmap(nullptr, bytes + 2 * page(), PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    KV_CHECK(memory != MAP_FAILED, "no memory with guards");
    std::byte* const usable = static_cast<std::byte*>(memory) + page();
    KV_CHECK(::mprotect(usable, bytes, PROT_READ | PROT_WRITE) == 0, "guards not set");
    std::memset(usable, untouched, unused(count));
    return reinterpret_cast<T*>(usable + unused(count));
  }

  void deallocate(T* from, std::size_t count) {
    std::byte* const usable = reinterpret_cast<std::byte*>(from) - unused(count);
    KV_CHECK(std::all_of(usable, usable + unused(count),
                         [](std::byte byte) { return byte == std::byte{untouched}; }),
             "memory before a guarded vector was written to");
    ::munmap(usable - page(), pages_for(count) + 2 * page());
  }

  friend bool operator==(const GuardedAllocator&, const GuardedAllocator&) { return true; }

 private:
  static constexpr unsigned char untouched = 0xa5;

  static std::size_t page() {
    static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
  }
  static std::size_t pages_for(std::size_t count) {
    return (count * sizeof(T) + page() - 1) / page() * page();
  }
  /// Bytes before the vector on its first page.
  static std::size_t unused(std::size_t count) { return pages_for(count) - count * sizeof(T); }
};

template <typename T>
using GuardedVector = std::vector<T, GuardedAllocator<T>>;

}  // namespace kvstrata::test
