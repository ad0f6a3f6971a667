#include "hostmem/memory_lock.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>

namespace kvstrata::hostmem {

namespace {

constexpr unsigned int on_fault = 1;  // MLOCK_ONFAULT: locking never waits for pages to be made

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
int try_to_lock(std::uint64_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return errno;
  const int error_number = ::mlock2(at, bytes, on_fault) == 0 ? 0 : errno;
  ::munmap(at, bytes);
  return error_number;
}

}  // namespace

MemoryLock::MemoryLock(bool wanted, std::uint64_t budget_bytes)
    : on_(wanted), budget_bytes_(budget_bytes) {
  if (!on_) return;
  const int error_number = try_to_lock(budget_bytes);
  if (error_number != 0) give_up(error_number, budget_bytes);
}

void MemoryLock::apply(const SharedMemory& memory) {
  if (!on_) return;
  if (::mlock2(memory.data(), memory.bytes(), on_fault) != 0) give_up(errno, memory.bytes());
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
