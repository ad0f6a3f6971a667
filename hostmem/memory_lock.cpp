#include "hostmem/memory_lock.h"

#include <sys/resource.h>

#include <cerrno>

namespace kvstrata::hostmem {

namespace {

std::string in_mib(std::uint64_t bytes) {
  return bytes < 1_MiB ? std::to_string(bytes >> 10) + " KiB"
                       : std::to_string(bytes >> 20) + " MiB";
}

std::string memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : in_mib(limit.rlim_cur);
}

/// 0, or the errno of locking so much address space. Pages that are never touched cost nothing.
int try_to_lock(const MemorySystem& system, std::uint64_t bytes) {
  std::byte* const at = system.map_nothing(bytes);
  if (at == nullptr) return errno;
  const int error_number = system.lock_on_fault(at, bytes) == 0 ? 0 : errno;
  (void)system.unmap(at, bytes);
  return error_number;
}

}  // namespace

MemoryLock::MemoryLock(bool wanted, std::uint64_t budget_bytes, const MemorySystem& system)
    : system_(system), on_(wanted), budget_bytes_(budget_bytes) {
  if (!on_) return;
  const int error_number = try_to_lock(system_, budget_bytes);
  if (error_number != 0) give_up(error_number, budget_bytes);
}

void MemoryLock::apply(const SharedMemory& memory) {
  if (!on_) return;
  if (system_.lock_on_fault(memory.data(), memory.bytes()) != 0) give_up(errno, memory.bytes());
}

void MemoryLock::give_up(int error_number, std::uint64_t bytes) {
  on_ = false;
  note_ = error_from_errno(error_number, "locking " + in_mib(bytes)).message() +
          ": RLIMIT_MEMLOCK is " + memlock_limit() + " and the host tier has " +
          in_mib(budget_bytes_) +
          "; its pages are used unlocked and may be swapped out. Raise the limit (LimitMEMLOCK= in "
          "systemd, --ulimit memlock= in containers) or turn locking off";
}

}  // namespace kvstrata::hostmem
