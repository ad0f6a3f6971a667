// Random traffic of several tenants and clients against a model that knows every slot's content.
#include <algorithm>
#include <cstring>
#include <map>

#include "tests/base/seed.h"
#include "tests/hostmem/arena_fixture.h"

namespace kvstrata::hostmem::test {

namespace {

constexpr std::uint64_t budget_bytes = 24_MiB;

/// A Traffic does random things to an arena and checks what must hold after each.
class Traffic {
 public:
  explicit Traffic(std::uint64_t seed) : random_(seed), f_(budget_bytes, 2_MiB) {}

  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2: allocate(); break;
      case 3: stage(); break;
      case 4:
      case 5: free_one(slots_, [&](const Slot& slot) { f_.arena->free_slot(slot); }); break;
      case 6: free_one(staged_, [&](const Slot& slot) { f_.arena->free_staging(slot); }); break;
      case 7: send(); break;
      case 8: unmap(); break;
      case 9: retire(); break;
      case 10: f_.arena->prefault(random_.below(8_MiB)); break;
      default:
        if (random_.one_in(8)) close_connection();
    }
    check();
  }

  void finish() {
    while (!slots_.empty()) free_one(slots_, [&](const Slot& slot) { f_.arena->free_slot(slot); });
    for (std::uint64_t client = 0; client < clients; ++client) close(ConnectionId{client});
    const auto tenant = TenantId{99};
    CHECK(f_.arena->retire_empty_chunks(tenant, budget_bytes).empty());
    const ArenaStats stats = f_.arena->stats();
    CHECK(stats.slots_used == 0);
    CHECK(stats.slots_total == 0);
    CHECK(stats.chunk_bytes == 0);
    CHECK(stats.zombie_bytes == 0);
    CHECK(stats.staging_bytes == 0);
  }

 private:
  static constexpr std::uint64_t tenants = 3, clients = 6;
  struct Held {
    Slot slot;
    ConnectionId owner;
    std::uint64_t stamp;
  };

  std::uint64_t random_bytes() {
    constexpr std::array<std::uint64_t, 5> sizes{4096, 20'000, 65'536, 1_MiB, 3_MiB};
    return sizes[random_.below(sizes.size())];
  }
  ConnectionId random_client() { return ConnectionId{random_.below(clients)}; }
  static TenantId tenant_of(ConnectionId client) {
    return TenantId{static_cast<std::uint32_t>(client.value % tenants)};
  }

  /// Marks both ends of a slot; another owner of the same memory would spoil the mark.
  void hold(std::vector<Held>& held, const Slot& slot, ConnectionId owner) {
    const std::uint64_t stamp = ++last_stamp_;
    store_le(slot.data, stamp);
    store_le(slot.data + slot.bytes - sizeof stamp, stamp);
    held.push_back({slot, owner, stamp});
  }

  void allocate() {
    const TenantId tenant{static_cast<std::uint32_t>(random_.below(tenants))};
    auto slot = f_.arena->allocate(tenant, random_bytes());
    if (!slot) {
      REQUIRE(slot.error().kind() == ErrorKind::out_of_memory);
      return;
    }
    REQUIRE(f_.arena->find_chunk(slot->chunk)->tenant == tenant);
    if (!random_.one_in(4)) f_.arena->publish(*slot);
    hold(slots_, *slot, {});
  }

  void stage() {
    const ConnectionId client = random_client();
    const auto slot = f_.arena->allocate_staging(tenant_of(client), client, random_bytes());
    if (!slot) return;
    for (const Held& other : staged_) {
      REQUIRE((other.slot.chunk != slot->chunk || other.owner == client));
    }
    hold(staged_, *slot, client);
  }

  template <typename Free>
  void free_one(std::vector<Held>& held, Free free) {
    if (held.empty()) return;
    std::swap(held[random_.below(held.size())], held.back());
    check_stamp(held.back());
    free(held.back().slot);
    held.pop_back();
  }

  void check_stamp(const Held& held) {
    REQUIRE(load_le<std::uint64_t>(held.slot.data) == held.stamp);
    REQUIRE(load_le<std::uint64_t>(held.slot.data + held.slot.bytes - 8) == held.stamp);
  }

  void send() {
    if (slots_.empty()) return;
    const ChunkId chunk = slots_[random_.below(slots_.size())].slot.chunk;
    const ConnectionId client = random_client();
    f_.arena->chunk_sent(chunk, client);
    sent_.emplace_back(chunk, client);
  }

  void unmap() {
    if (sent_.empty()) return;
    const auto& [chunk, client] = sent_[random_.below(sent_.size())];  // sometimes a second time
    f_.arena->chunk_unmapped(chunk, client);
  }

  void retire() {
    const TenantId tenant{static_cast<std::uint32_t>(random_.below(tenants))};
    const auto retired = random_.one_in(2)
                             ? f_.arena->retire_empty_chunks(tenant, random_bytes())
                             : f_.arena->retire_empty_chunks_for_staging(random_bytes());
    for (const auto& one : retired) {
      REQUIRE_FALSE(one.mapped_by.empty());
      REQUIRE_FALSE(f_.arena->find_chunk(one.chunk));
    }
  }

  void close_connection() { close(random_client()); }
  void close(ConnectionId client) {
    f_.arena->connection_closed(client);
    std::erase_if(staged_, [client](const Held& held) { return held.owner == client; });
  }

  void check() {
    const ArenaStats stats = f_.arena->stats();
    REQUIRE(f_.taken_bytes() <= budget_bytes);
    REQUIRE(stats.staging_bytes <= stats.chunk_bytes);
    REQUIRE(stats.slots_used == slots_.size() + staged_.size());
    REQUIRE(stats.slots_used + stats.slots_free == stats.slots_total);
    if (!slots_.empty()) check_stamp(slots_[random_.below(slots_.size())]);
  }

  kvstrata::test::Random random_;
  ArenaFixture f_;
  std::vector<Held> slots_, staged_;
  std::vector<std::pair<ChunkId, ConnectionId>> sent_;
  std::uint64_t last_stamp_ = 0;
};

}  // namespace

TEST_CASE("The budget holds, no slot has two owners and none is lost, whatever happens") {
  const std::uint64_t seed = kvstrata::test::test_seed("budget");
  for (std::uint64_t run = 0; run < 8; ++run) {
    Traffic traffic(seed + run);
    for (int i = 0; i < 3000; ++i) traffic.step();
    traffic.finish();
  }
}

}  // namespace kvstrata::hostmem::test
