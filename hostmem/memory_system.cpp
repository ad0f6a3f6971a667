#include "hostmem/memory_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace kvstrata::hostmem {

namespace {

std::byte* or_null(void* at) {
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

const MemorySystem& MemorySystem::kernel() {
  static const MemorySystem system;
  return system;
}

int MemorySystem::create_memfd(const char* name, unsigned flags) const {
  return ::memfd_create(name, flags);
}

int MemorySystem::truncate(int fd, std::uint64_t bytes) const {
  return ::ftruncate(fd, static_cast<off_t>(bytes));
}

std::byte* MemorySystem::map(int fd, std::uint64_t bytes) const {
  return or_null(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
}

std::byte* MemorySystem::map_nothing(std::uint64_t bytes) const {
  return or_null(
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

int MemorySystem::unmap(std::byte* at, std::uint64_t bytes) const {
  return ::munmap(at, bytes);
}

int MemorySystem::add_seals(int fd, int seals) const {
  return ::fcntl(fd, F_ADD_SEALS, seals);
}

int MemorySystem::advise(std::byte* at, std::uint64_t bytes, int advice) const {
  return ::madvise(at, bytes, advice);
}

int MemorySystem::lock_on_fault(const std::byte* at, std::uint64_t bytes) const {
  constexpr unsigned on_fault = 1;  // MLOCK_ONFAULT
  return ::mlock2(at, bytes, on_fault);
}

}  // namespace kvstrata::hostmem
