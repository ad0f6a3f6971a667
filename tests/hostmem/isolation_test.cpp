// What a client can do to memory it was sent. The client is a process of its own that has the
// chunk's file descriptor and nothing else.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include "hostmem/chunk_view.h"
#include "tests/base/process.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

using kvstrata::test::in_process;

namespace {

constexpr int allowed = 1, refused = 0;

int reopen_for_writing(int fd) {
  return ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR);
}

bool maps_writable(int fd) {
  return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
}

/// Whether a client process that does `attempt` with the chunk's descriptor gets away with it.
bool client_can(const ChunkInfo& chunk, const std::function<bool(int)>& attempt) {
  const auto end = in_process([&] { return attempt(chunk.fd) ? allowed : refused; });
  REQUIRE(end.signal == 0);
  return end.exit_code == allowed;
}

struct PublishedBlock : ArenaFixture {
  PublishedBlock() {
    slot = allocate(alice, 4096);
    store_le(slot.data, std::uint64_t{42});
    arena->publish(slot);
    chunk = *arena->find_chunk(slot.chunk);
  }
  ~PublishedBlock() { CHECK(load_le<std::uint64_t>(slot.data) == 42); }
  Slot slot;
  ChunkInfo chunk;
};

}  // namespace

TEST_CASE("A client can read a read chunk") {
  PublishedBlock f;
  CHECK(client_can(f.chunk, [&](int fd) {
    const void* at = ::mmap(nullptr, f.chunk.file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return false;
    return load_le<std::uint64_t>(static_cast<const std::byte*>(at) + f.slot.offset) == 42;
  }));
}

TEST_CASE("A client that reopens a read chunk for writing can't map or write it") {
  PublishedBlock f;
  CHECK_FALSE(client_can(f.chunk, [](int fd) { return maps_writable(reopen_for_writing(fd)); }));
  CHECK_FALSE(client_can(f.chunk, [&](int fd) {
    return ::pwrite(reopen_for_writing(fd), "x", 1, static_cast<off_t>(f.slot.offset)) == 1;
  }));
}

TEST_CASE("A client can't map or write a read chunk by the descriptor it was sent") {
  PublishedBlock f;
  CHECK_FALSE(client_can(f.chunk, [](int fd) { return maps_writable(fd); }));
  CHECK_FALSE(client_can(f.chunk, [&](int fd) {
    return ::pwrite(fd, "x", 1, static_cast<off_t>(f.slot.offset)) == 1;
  }));
}

TEST_CASE("A client can't make its mapping of a read chunk writable") {
  PublishedBlock f;
  CHECK_FALSE(client_can(f.chunk, [](int fd) {
    void* at = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    return at == MAP_FAILED || ::mprotect(at, 4096, PROT_READ | PROT_WRITE) == 0;
  }));
}

TEST_CASE("A client can't punch holes into, resize or seal a chunk") {
  PublishedBlock f;
  CHECK_FALSE(client_can(f.chunk, [&](int fd) {
    return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(f.slot.offset), 4096) == 0;
  }));
  const ChunkInfo staging = *f.arena->find_chunk(f.stage(first_client, 4096).chunk);
  for (const ChunkInfo& chunk : {f.chunk, staging}) {
    CHECK_FALSE(client_can(chunk, [](int fd) { return ::ftruncate(fd, 0) == 0; }));
    CHECK_FALSE(client_can(chunk, [](int fd) { return ::ftruncate(fd, 1 << 30) == 0; }));
    CHECK_FALSE(
        client_can(chunk, [](int fd) { return ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0; }));
  }
}

TEST_CASE("The daemon still writes a read chunk after it was sealed") {
  ArenaFixture f;
  const Slot slot = f.allocate(alice, 4096);
  store_le(slot.data, std::uint64_t{7});
  CHECK(load_le<std::uint64_t>(slot.data) == 7);
}

TEST_CASE("What a client writes into its staging chunk is what the daemon reads") {
  ArenaFixture f;
  const Slot slot = f.stage(first_client, 4096);
  const ChunkInfo chunk = *f.arena->find_chunk(slot.chunk);
  CHECK(client_can(chunk, [&](int fd) {
    void* at = ::mmap(nullptr, chunk.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return false;
    store_le(static_cast<std::byte*>(at) + slot.offset, std::uint64_t{99});
    return true;
  }));
  CHECK(load_le<std::uint64_t>(slot.data) == 99);
}

TEST_CASE("A client keeps reading a chunk the daemon closed, and sees its slots expired") {
  ArenaFixture f;
  Slot slot = f.allocate(alice, 4096);
  store_le(slot.data, std::uint64_t{42});
  f.arena->publish(slot);
  f.arena->chunk_sent(slot.chunk, first_client);
  const ChunkView view = ChunkView::map(f.arena->find_chunk(slot.chunk)->fd).value();
  CHECK(view.check(slot.index, slot.generation).ok());

  f.arena->free_slot(slot);
  f.fill(bob, 1_MiB);
  CHECK(f.arena->retire_empty_chunks(bob, 1_MiB).size() == 1);
  CHECK_FALSE(f.arena->find_chunk(slot.chunk));
  CHECK(load_le<std::uint64_t>(view.bytes(slot.index).data()) == 42);
  CHECK(view.check(slot.index, slot.generation).error().kind() == ErrorKind::lease_expired);
}

}  // namespace kvstrata::hostmem::test
