// Low limits of the operating system: each is said, none is fatal.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "hostmem/memory_lock.h"
#include "tests/base/process.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

using kvstrata::test::in_process;

namespace {

/// Lowers a limit for this process and what lets root ignore it.
bool lower(decltype(RLIMIT_MEMLOCK) which, rlim_t to) {
  const rlimit limit{to, to};
  if (::setrlimit(which, &limit) != 0) return false;
  constexpr uid_t nobody = 65534;
  return ::geteuid() != 0 || ::setresuid(nobody, nobody, nobody) == 0;
}

struct Locked {
  bool works = false;
  std::string note;
};

/// What a 16 MiB arena says and does under a memlock limit.
Locked lock_under(rlim_t limit) {
  Locked result;
  if (!lower(RLIMIT_MEMLOCK, limit)) return result;
  ArenaOptions options;
  options.budget_bytes = 16_MiB;
  options.lock_memory = true;
  auto arena = HostArena::create(options).value();
  while (auto slot = arena->allocate(alice, 1_MiB)) {
    store_le(slot->data, std::uint64_t{5});
    result.works = load_le<std::uint64_t>(slot->data) == 5;
  }
  result.note = arena->stats().lock_note;
  return result;
}

/// Locked memory of this process.
std::uint64_t locked_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) return std::stoull(line.substr(6));
  }
  return 0;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Memory that can't be locked is used unlocked, and the note names the limit") {
  const auto end = in_process([] {
    const Locked low = lock_under(64_KiB);
    return low.works && contains(low.note, "RLIMIT_MEMLOCK is 64 KiB") &&
                   contains(low.note, "the host tier has 16 MiB") && contains(low.note, "unlocked")
               ? 0
               : 1;
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("A tier larger than the limit is not locked in part") {
  const auto end = in_process([] {
    const Locked low = lock_under(8_MiB);
    return low.works && contains(low.note, "RLIMIT_MEMLOCK is 8 MiB") ? 0 : 1;
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("Memory below the limit is locked, and there is nothing to note") {
  MemoryLock lock(true, 48_KiB);
  const SharedMemory memory = SharedMemory::create("test", 32_KiB).value();
  const std::uint64_t before_kib = locked_kib();
  lock.apply(memory);
  CHECK(lock.note().empty());
  CHECK(locked_kib() == before_kib + 32);
}

TEST_CASE("Nothing is locked and nothing noted unless asked") {
  const auto end = in_process([] {
    if (!lower(RLIMIT_MEMLOCK, 0)) return 2;
    ArenaFixture f;
    f.allocate(alice, 4096);
    return f.arena->stats().lock_note.empty() ? 0 : 1;
  });
  CHECK(end.exit_code == 0);
}

TEST_CASE("Without file descriptors left, allocation is out of memory and slots still turn over") {
  const auto end = in_process([] {
    ArenaFixture f;
    const Slot slot = f.allocate(alice, 2_MiB);
    if (!lower(RLIMIT_NOFILE, 0)) return 2;
    const auto more = f.arena->allocate(alice, 2_MiB);
    if (more.ok() || more.error().kind() != ErrorKind::out_of_memory) return 3;
    if (!contains(more.error().message(), "RLIMIT_NOFILE")) return 4;
    f.arena->free_slot(slot);
    return f.arena->allocate(alice, 2_MiB).ok() ? 0 : 5;
  });
  CHECK(end.exit_code == 0);
}

}  // namespace kvstrata::hostmem::test
