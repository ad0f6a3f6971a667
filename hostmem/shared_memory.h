// A SharedMemory is a memfd and this process's read-write mapping of it. Closing it leaves the
// memory to those who mapped it. Not safe for concurrent calls; its bytes are, as any memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "hostmem/memory_system.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::hostmem {

class SharedMemory {
 public:
  /// `bytes` of zeros (a multiple of the page size), mapped and not touched. The name is for people
  /// who read /proc. `out_of_memory`, whatever the system's reason: others may give some back.
  static Result<SharedMemory> create(const std::string& name, std::uint64_t bytes,
                                     const MemorySystem& system = MemorySystem::kernel());

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

  /// Gives back all beyond `bytes`, a multiple of the page size; before any seal.
  Status shrink(std::uint64_t bytes);
  /// From here on only this mapping can write; nobody can resize or add seals.
  Status seal_for_readers();
  /// Nobody can resize or add seals; everybody who has the file can write.
  Status seal_size();
  /// Asks for huge pages. Best effort: small ones do the same, slower.
  void advise_huge_pages();
  /// Takes the pages of [offset, offset + bytes) from the kernel now; false: it has none.
  bool populate(std::uint64_t offset, std::uint64_t bytes);

 private:
  SharedMemory(const MemorySystem& system, int fd) : system_(&system), fd_(fd) {}
  Status add_seals(int seals);
  void close();

  const MemorySystem* system_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace kvstrata::hostmem
