// A MemorySystem is the kernel as the host tier sees it: the calls by which memory is taken, each
// of which may be refused. kernel() makes them; tests derive one that refuses some.
//
// Threads: safe from any. Lifetime: outlives all memory that was taken by it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvstrata::hostmem {

/// Each method answers as the system call it is named for: -1 (null: map) and errno on failure.
class MemorySystem {
 public:
  virtual ~MemorySystem() = default;

  virtual int create_memfd(const char* name, unsigned flags) const;
  virtual int truncate(int fd, std::uint64_t bytes) const;
  /// A shared, writable mapping of the whole file.
  virtual std::byte* map(int fd, std::uint64_t bytes) const;
  /// Address space without pages.
  virtual std::byte* map_nothing(std::uint64_t bytes) const;
  virtual int unmap(std::byte* at, std::uint64_t bytes) const;
  virtual int add_seals(int fd, int seals) const;
  virtual int advise(std::byte* at, std::uint64_t bytes, int advice) const;
  /// Locks pages when they are touched, so it never waits for any to be made.
  virtual int lock_on_fault(const std::byte* at, std::uint64_t bytes) const;

  static const MemorySystem& kernel();
};

}  // namespace kvstrata::hostmem
