// An engine that is short of memory: the system refuses chunks of the host tier, or there is none
// for a frame on its way to or from the disk.
#include <doctest/doctest.h>

#include <cerrno>

#include "engine_test_kit.h"
#include "storage/device/frame_memory.h"

using namespace kvstrata;
using namespace kvstrata::daemon;
using namespace kvstrata::daemon::test;

namespace {

/// The kernel; gives no more memfds while `refuses` is set.
class RefusingSystem final : public hostmem::MemorySystem {
 public:
  int create_memfd(const char* name, unsigned flags) const override {
    if (!refuses) return MemorySystem::create_memfd(name, flags);
    errno = EMFILE;
    return -1;
  }
  bool refuses = false;
};

/// While it lives there is no memory for frames.
class NoFrameMemory {
 public:
  NoFrameMemory() {
    storage::FrameMemory::instance().set_refuses([](std::uint64_t) { return true; });
  }
  ~NoFrameMemory() { storage::FrameMemory::instance().set_refuses(nullptr); }
  NoFrameMemory(const NoFrameMemory&) = delete;
  NoFrameMemory& operator=(const NoFrameMemory&) = delete;
};

NamespaceSpec opaque() {
  NamespaceSpec spec;
  spec.tenant = "default";
  spec.model.fingerprint = "values";
  spec.model.groups.clear();
  return spec;
}

ByteVector value_of(const std::string& key, std::size_t bytes) {
  return ByteVector(bytes, static_cast<std::byte>(std::hash<std::string>{}(key)));
}

struct Values {
  explicit Values(std::uint64_t host_bytes = 32_MiB) : kit(host_bytes) {
    kit.options().arena.system = &system;
    kit.options().codec = "raw";
    kit.restart();
    ns = kit.open_namespace(opaque(), kit.caller()).ns;
  }

  /// 0 or the kind of error a put ends with.
  std::uint8_t put(const std::string& key, std::size_t bytes) {
    NewBlocks asked;
    asked.ns = ns;
    asked.by = SelectBy::key;
    asked.keys = {key};
    asked.lengths = {bytes};
    const auto value = std::make_shared<const ByteVector>(value_of(key, bytes));
    return kit
        .await<Committed>([&](auto done) {
          kit.engine().put(kit.caller(), std::move(asked), value, 0, std::move(done));
        })
        .value()
        .status.front();
  }
  std::uint8_t get(const std::string& key, std::size_t bytes) {
    Selection wanted;
    wanted.ns = ns;
    wanted.by = SelectBy::key;
    wanted.keys = {key};
    const auto loaded = kit.await<Loaded>([&](auto done) {
      kit.engine().get(kit.caller(), std::move(wanted), true, Milliseconds(10'000),
                       std::move(done));
    });
    const LoadedBlock& block = loaded.value().blocks.at(0);
    if (block.status == 0) CHECK(bytes_of_block(block) == value_of(key, bytes));
    CHECK(kit.engine().release(kit.caller(), loaded->grant.lease).ok());
    return block.status;
  }
  std::uint64_t evicted() { return kit.engine().stats(kit.caller()).counters.at("evicted_blocks"); }

  RefusingSystem system;
  EngineKit kit;
  NamespaceId ns;
};

constexpr auto busy = static_cast<std::uint8_t>(ErrorKind::busy);
constexpr auto out_of_memory = static_cast<std::uint8_t>(ErrorKind::out_of_memory);

}  // namespace

TEST_CASE("Where the system refuses more memory, one block makes room for another of its size") {
  Values values;
  for (int i = 0; i < 8; ++i) REQUIRE(values.put("first " + std::to_string(i), 1_MiB) == 0);
  REQUIRE(values.kit.flush(values.kit.caller()).ok());
  values.system.refuses = true;
  for (int i = 0; i < 4; ++i) CHECK(values.put("more " + std::to_string(i), 1_MiB) == 0);
  CHECK(values.evicted() == 4);
  CHECK(values.get("more 3", 1_MiB) == 0);
}

TEST_CASE("A system that gives no memory does not empty the host tier") {
  Values values;
  for (int i = 0; i < 8; ++i) REQUIRE(values.put("large " + std::to_string(i), 1_MiB) == 0);
  REQUIRE(values.kit.flush(values.kit.caller()).ok());
  values.system.refuses = true;
  CHECK(values.put("small", 64_KiB) == busy);
  CHECK(values.evicted() == 1);  // its chunk was closed, which might have helped
  const EngineStats stats = values.kit.engine().stats(values.kit.caller());
  CHECK(stats.notes.at("memory_refused").find("ulimit -n") != std::string::npos);
  values.system.refuses = false;
  CHECK(values.put("small", 64_KiB) == 0);
}

TEST_CASE("A reservation that the system has no memory for says so") {
  Values values;
  values.system.refuses = true;
  const auto reserved = values.kit.engine().reserve(values.kit.caller(), values.ns, 0, 1, 1_MiB);
  REQUIRE_FALSE(reserved.ok());
  CHECK(reserved.error().kind() == ErrorKind::busy);
  CHECK(reserved.error().message().find("ulimit -n") != std::string::npos);
}

TEST_CASE(
    "A block there is no frame memory for stays visible, and FLUSH says why it isn't durable") {
  Values values;
  {
    const NoFrameMemory none;
    CHECK(values.put("a", 1_MiB) == 0);
    const Status flushed = values.kit.flush(values.kit.caller());
    REQUIRE_FALSE(flushed.ok());
    CHECK(flushed.error().kind() == ErrorKind::out_of_memory);
    CHECK(flushed.error().message().find("memory.max") != std::string::npos);
    CHECK(values.get("a", 1_MiB) == 0);
  }
  // Pinning it, or putting it again, writes it.
  Selection pinned;
  pinned.ns = values.ns;
  pinned.by = SelectBy::key;
  pinned.keys = {"a"};
  const auto changed = values.kit.await<Changed>([&](auto done) {
    values.kit.engine().pin(values.kit.caller(), pinned, true, std::move(done));
  });
  REQUIRE(changed.ok());
  CHECK(changed->changed == 1);
  values.kit.restart();
  CHECK(values.get("a", 1_MiB) == 0);
  CHECK(values.put("a", 1_MiB) == static_cast<std::uint8_t>(ErrorKind::exists));
  CHECK(values.kit.flush(values.kit.caller()).ok());
}

TEST_CASE("A read there is no frame memory for fails alone, and works again later") {
  Values values;
  REQUIRE(values.put("a", 1_MiB) == 0);
  REQUIRE(values.kit.flush(values.kit.caller()).ok());
  REQUIRE(values.kit
              .await<Removal>([&](auto done) {
                values.kit.engine().evict(values.kit.caller(), 1_GiB, std::move(done));
              })
              .ok());
  {
    const NoFrameMemory none;
    CHECK(values.get("a", 1_MiB) == out_of_memory);
  }
  CHECK(values.get("a", 1_MiB) == 0);
}
