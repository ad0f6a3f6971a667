// A MemoryLock keeps the host tier's pages from being swapped, where the system lets it. Either the
// whole tier is locked or nothing is: a part would make latency a matter of luck, and use up the
// limit that registered I/O buffers need. Control thread only.
#pragma once

#include <cstdint>
#include <string>

#include "hostmem/shared_memory.h"

namespace kvstrata::hostmem {

class MemoryLock {
 public:
  /// Finds out whether `budget_bytes` can be locked; if not, note() says why and apply() does
  /// nothing.
  MemoryLock(bool wanted, std::uint64_t budget_bytes,
             const MemorySystem& system = MemorySystem::kernel());

  /// Locks the pages `memory` has now and those it gets later. After a failure no more is tried.
  void apply(const SharedMemory& memory);

  /// Empty, or which limit is too low and what is done instead.
  const std::string& note() const { return note_; }

 private:
  void give_up(int error_number, std::uint64_t bytes);

  const MemorySystem& system_;
  bool on_ = false;
  std::uint64_t budget_bytes_;
  std::string note_;
};

}  // namespace kvstrata::hostmem
