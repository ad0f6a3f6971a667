// A system that refuses memory within the budget: said with a remedy, and nothing of it stays.
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

namespace {

enum class Call : std::uint8_t { create, truncate, map, seal };
constexpr std::array calls = {Call::create, Call::truncate, Call::map, Call::seal};

/// The kernel, but for one call, which fails while `error_number` is set.
class RefusingSystem final : public MemorySystem {
 public:
  int create_memfd(const char* name, unsigned flags) const override {
    return fails(Call::create) ? -1 : MemorySystem::create_memfd(name, flags);
  }
  int truncate(int fd, std::uint64_t bytes) const override {
    return fails(Call::truncate) ? -1 : MemorySystem::truncate(fd, bytes);
  }
  std::byte* map(int fd, std::uint64_t bytes) const override {
    return fails(Call::map) ? nullptr : MemorySystem::map(fd, bytes);
  }
  int add_seals(int fd, int seals) const override {
    return fails(Call::seal) ? -1 : MemorySystem::add_seals(fd, seals);
  }

  Call call = Call::create;
  int error_number = 0;

 private:
  bool fails(Call which) const {
    if (which != call || error_number == 0) return false;
    errno = error_number;
    return true;
  }
};

struct RefusedArena {
  RefusedArena() {
    ArenaOptions options;
    options.budget_bytes = 16_MiB;
    options.system = &system;
    arena = HostArena::create(options).value();
  }

  RefusingSystem system;
  std::unique_ptr<HostArena> arena;
};

/// Memfds of this process: open ones and mappings.
std::size_t memfds() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    count += std::filesystem::read_symlink(entry.path(), error).string().starts_with("/memfd:");
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") < line.size();
  return count;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Whatever the system refuses a chunk is out of memory, leaves nothing, and may pass") {
  for (const Call call : calls) {
    for (const int error_number : {ENOMEM, ENOSPC, EMFILE, EAGAIN, EPERM, EBUSY}) {
      CAPTURE(call);
      CAPTURE(error_number);
      const std::size_t before = memfds();
      RefusedArena f;
      f.system.call = call;
      f.system.error_number = error_number;
      for (int kind = 0; kind < 2; ++kind) {
        const auto slot = kind == 0 ? f.arena->allocate(alice, 2_MiB)
                                    : f.arena->allocate_staging(alice, first_client, 256_KiB);
        REQUIRE_FALSE(slot.ok());
        CHECK(slot.error().kind() == ErrorKind::out_of_memory);
        CHECK(contains(slot.error().message(), "the system refuses"));
        CHECK(f.arena->stats().refusal_note == slot.error().message());
      }
      CHECK(f.arena->stats().refused_chunks == 2);
      CHECK(f.arena->stats().chunk_bytes == 0);
      CHECK(memfds() == before);
      f.system.error_number = 0;
      CHECK(f.arena->allocate(alice, 2_MiB).ok());
      CHECK(f.arena->allocate_staging(alice, first_client, 256_KiB).ok());
    }
  }
}

TEST_CASE("A refusal names the limit to raise") {
  const auto message = [](int error_number) {
    RefusedArena f;
    f.system.error_number = error_number;
    return f.arena->allocate(alice, 2_MiB).error().message();
  };
  CHECK(contains(message(EMFILE), "ulimit -n"));
  CHECK(contains(message(EAGAIN), "ulimit -l"));
  CHECK(contains(message(ENOMEM), "memory.max"));
  CHECK(contains(message(EPERM), "seccomp"));
}

TEST_CASE("A full budget is no refusal of the system") {
  RefusedArena f;
  while (f.arena->allocate(alice, 2_MiB)) {
  }
  CHECK(f.arena->stats().refused_chunks == 0);
  CHECK(f.arena->stats().refusal_note.empty());
}

TEST_CASE("Memory made ahead that can't be cut to size gives way to memory made anew") {
  RefusedArena f;
  f.arena->prefault(3_MiB);
  REQUIRE(f.arena->stats().prefaulted_bytes > 0);
  f.system.call = Call::truncate;
  f.system.error_number = ENOMEM;
  CHECK_FALSE(f.arena->allocate(alice, 96_KiB).ok());
  CHECK(f.arena->stats().prefaulted_bytes == 0);
  f.system.error_number = 0;
  CHECK(f.arena->allocate(alice, 96_KiB).ok());
}

}  // namespace kvstrata::hostmem::test
