#include "hostmem/arena.h"

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "hostmem/chunk.h"
#include "hostmem/chunk_mappings.h"
#include "hostmem/chunk_planner.h"
#include "hostmem/memory_lock.h"
#include "hostmem/prefaulter.h"

namespace kvstrata::hostmem {

namespace {

constexpr std::uint64_t budget_bytes_min = 16_MiB;

/// Chunks of one pool can serve each other's requests.
struct PoolKey {
  ChunkKind kind = ChunkKind::read;
  TenantId tenant;
  ConnectionId owner;  ///< staging only
  std::uint64_t slot_bytes = 0;

  friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
};

struct LiveChunk {
  Chunk chunk;
  std::uint64_t empty_since = 0;  ///< place in the order of emptying, while empty
};

struct Zombie {
  std::uint64_t bytes = 0;
  MonotonicTime retired_at;
};

PoolKey pool_of(const Chunk& chunk) {
  const Chunk::Identity& identity = chunk.identity();
  return {identity.kind, identity.tenant, identity.owner, chunk.shape().slot_bytes};
}

const char* name_of(ChunkKind kind) {
  return kind == ChunkKind::read ? "kvstrata-read" : "kvstrata-staging";
}

class Arena final : public HostArena {
 public:
  explicit Arena(const ArenaOptions& options)
      : options_(options),
        planner_(options.budget_bytes, options.chunk_bytes),
        lock_(options.lock_memory, options.budget_bytes, *options.system) {}

  Result<Slot> allocate(TenantId tenant, std::uint64_t bytes) override;
  void publish(Slot& slot) override { live(slot.chunk).chunk.publish(slot); }
  void free_slot(const Slot& slot) override { give_back(slot, ChunkKind::read); }
  std::uint64_t size_class(std::uint64_t bytes) const override { return slot_bytes_for(bytes); }
  Result<Slot> allocate_staging(TenantId tenant, ConnectionId owner, std::uint64_t bytes) override;
  void free_staging(const Slot& slot) override { give_back(slot, ChunkKind::staging); }

  void chunk_sent(ChunkId chunk, ConnectionId to) override;
  void chunk_unmapped(ChunkId chunk, ConnectionId by) override;
  void connection_closed(ConnectionId connection) override;
  std::vector<Retired> retire_empty_chunks(TenantId tenant, std::uint64_t bytes) override;
  std::vector<Retired> retire_empty_chunks_for_staging(std::uint64_t bytes) override;
  std::vector<ConnectionId> overdue(MonotonicTime before) const override;

  std::optional<ChunkInfo> find_chunk(ChunkId chunk) const override;
  std::vector<std::uint32_t> used_slots(ChunkId chunk) const override;
  void prefault(std::uint64_t bytes) override;
  ArenaStats stats() const override;
  std::uint64_t refused_chunks() const override { return refused_chunks_; }

 private:
  using LiveChunks = std::unordered_map<ChunkId, LiveChunk>;

  LiveChunk& live(ChunkId id);
  Result<Slot> allocate_from(const PoolKey& pool);
  Result<ChunkId> open_chunk(const PoolKey& pool);
  Result<Chunk> make_chunk(const PoolKey& pool, ChunkShape shape,
                           std::optional<SharedMemory> memory);
  std::optional<SharedMemory> adopt_prefaulted(const PoolKey& pool, ChunkShape& shape);
  void give_back(const Slot& slot, ChunkKind kind);
  void close_chunk(LiveChunks::iterator at);
  void bury_if_unmapped(ChunkId id);

  std::uint64_t taken_bytes() const { return alive_bytes_ + zombie_bytes_; }
  std::uint64_t room_bytes() const { return options_.budget_bytes - taken_bytes(); }
  bool could_allocate(const PoolKey& pool, std::uint64_t coming_bytes) const;
  std::vector<Retired> retire_until_room_for(const PoolKey& pool);

  ArenaOptions options_;
  ChunkPlanner planner_;
  MemoryLock lock_;
  Prefaulter prefaulter_;

  LiveChunks chunks_;
  std::map<PoolKey, std::set<ChunkId>> with_free_;
  std::map<std::uint64_t, ChunkId> empty_;  ///< longest empty first
  ChunkMappings mappings_;
  std::unordered_map<ChunkId, Zombie> zombies_;
  std::uint64_t last_chunk_id_ = 0;
  std::uint64_t emptied_ = 0;

  std::uint64_t alive_bytes_ = 0, staging_bytes_ = 0, zombie_bytes_ = 0;
  std::uint64_t slots_total_ = 0, slots_used_ = 0, slot_bytes_used_ = 0;
  std::uint64_t refused_chunks_ = 0;
  std::string refusal_note_;
};

LiveChunk& Arena::live(ChunkId id) {
  const auto found = chunks_.find(id);
  KV_CHECK(found != chunks_.end(), "a slot of a chunk that is closed");
  return found->second;
}

// Slots.

Status check_length(std::uint64_t bytes) {
  if (bytes <= slot_bytes_max) return {};
  return Error(ErrorKind::too_large, "a block has at most " + std::to_string(slot_bytes_max) +
                                         " bytes, not " + std::to_string(bytes));
}

Result<Slot> Arena::allocate(TenantId tenant, std::uint64_t bytes) {
  KV_TRY(check_length(bytes));
  return allocate_from({ChunkKind::read, tenant, {}, slot_bytes_for(bytes)});
}

Result<Slot> Arena::allocate_staging(TenantId tenant, ConnectionId owner, std::uint64_t bytes) {
  KV_TRY(check_length(bytes));
  return allocate_from({ChunkKind::staging, tenant, owner, slot_bytes_for(bytes)});
}

Result<Slot> Arena::allocate_from(const PoolKey& pool) {
  auto with_free = with_free_.find(pool);
  if (with_free == with_free_.end()) {
    KV_TRY(open_chunk(pool));
    with_free = with_free_.find(pool);
  }
  // From the oldest chunk, so that younger ones become empty and can be retired.
  LiveChunk& from = live(*with_free->second.begin());
  if (from.chunk.empty()) empty_.erase(from.empty_since);
  const Slot slot = from.chunk.allocate();
  if (!from.chunk.has_free()) {
    with_free->second.erase(slot.chunk);
    if (with_free->second.empty()) with_free_.erase(with_free);
  }
  ++slots_used_;
  slot_bytes_used_ += slot.bytes;
  return slot;
}

void Arena::give_back(const Slot& slot, ChunkKind kind) {
  LiveChunk& of = live(slot.chunk);
  KV_CHECK(of.chunk.identity().kind == kind, "a slot of the other kind of chunk");
  of.chunk.free_slot(slot);
  with_free_[pool_of(of.chunk)].insert(slot.chunk);
  if (of.chunk.empty()) {
    of.empty_since = ++emptied_;
    empty_.emplace(of.empty_since, slot.chunk);
  }
  --slots_used_;
  slot_bytes_used_ -= of.chunk.shape().slot_bytes;
}

// Chunks come and go.

Result<ChunkId> Arena::open_chunk(const PoolKey& pool) {
  ChunkShape shape;
  std::optional<SharedMemory> memory = adopt_prefaulted(pool, shape);
  if (!memory) {
    const auto fit = planner_.fit(pool.kind, pool.slot_bytes, room_bytes());
    if (!fit) {
      return Error(ErrorKind::out_of_memory, "the host tier has " + std::to_string(room_bytes()) +
                                                 " of " + std::to_string(options_.budget_bytes) +
                                                 " bytes left, " + std::to_string(zombie_bytes_) +
                                                 " are still mapped by clients; no chunk of " +
                                                 std::to_string(pool.slot_bytes) +
                                                 "-byte slots fits");
    }
    shape = *fit;
    // What was touched ahead but doesn't fit gives way.
    while (room_bytes() - prefaulter_.bytes_held() < shape.file_bytes()) prefaulter_.take();
  }
  Result<Chunk> made = make_chunk(pool, shape, std::move(memory));
  if (!made) {
    ++refused_chunks_;
    refusal_note_ = made.error().message();
    return made.error();
  }
  Chunk chunk = *std::move(made);
  const ChunkId id = chunk.identity().id;
  alive_bytes_ += shape.file_bytes();
  if (pool.kind == ChunkKind::staging) staging_bytes_ += shape.file_bytes();
  slots_total_ += shape.slots;
  LiveChunk entry{std::move(chunk), ++emptied_};
  empty_.emplace(entry.empty_since, id);
  chunks_.emplace(id, std::move(entry));
  with_free_[pool].insert(id);
  KV_CHECK(taken_bytes() + prefaulter_.bytes_held() <= options_.budget_bytes,
           "the host tier exceeds its budget");
  return id;
}

// All that the system may refuse; nothing is counted before.
Result<Chunk> Arena::make_chunk(const PoolKey& pool, ChunkShape shape,
                                std::optional<SharedMemory> memory) {
  if (!memory) {
    KV_ASSIGN(memory,
              SharedMemory::create(name_of(pool.kind), shape.file_bytes(), *options_.system));
  }
  if (options_.huge_pages) memory->advise_huge_pages();
  lock_.apply(*memory);
  const ChunkId id{++last_chunk_id_};
  return Chunk::create({id, pool.kind, pool.tenant, pool.owner}, shape, std::move(*memory));
}

std::optional<SharedMemory> Arena::adopt_prefaulted(const PoolKey& pool, ChunkShape& shape) {
  if (pool.kind != ChunkKind::read || prefaulter_.bytes_held() == 0) return std::nullopt;
  const auto fit = planner_.fit(pool.kind, pool.slot_bytes, planner_.prefault_bytes());
  if (!fit) return std::nullopt;
  std::optional<SharedMemory> memory = prefaulter_.take();
  if (!memory->shrink(fit->file_bytes())) return std::nullopt;
  shape = *fit;
  return memory;
}

void Arena::close_chunk(LiveChunks::iterator at) {
  const Chunk& chunk = at->second.chunk;
  const ChunkId id = at->first;
  const std::uint64_t bytes = chunk.shape().file_bytes();
  const PoolKey pool = pool_of(chunk);
  if (chunk.empty()) empty_.erase(at->second.empty_since);
  if (const auto with_free = with_free_.find(pool); with_free != with_free_.end()) {
    with_free->second.erase(id);
    if (with_free->second.empty()) with_free_.erase(with_free);
  }
  alive_bytes_ -= bytes;
  if (pool.kind == ChunkKind::staging) staging_bytes_ -= bytes;
  slots_total_ -= chunk.shape().slots;
  slots_used_ -= chunk.used();
  slot_bytes_used_ -= chunk.used() * chunk.shape().slot_bytes;
  chunks_.erase(at);
  if (mappings_.is_mapped(id)) {
    zombies_.emplace(id, Zombie{bytes, options_.clock->now()});
    zombie_bytes_ += bytes;
  }
}

void Arena::bury_if_unmapped(ChunkId id) {
  const auto zombie = zombies_.find(id);
  if (zombie == zombies_.end() || mappings_.is_mapped(id)) return;
  zombie_bytes_ -= zombie->second.bytes;
  zombies_.erase(zombie);
}

// Clients' mappings.

void Arena::chunk_sent(ChunkId chunk, ConnectionId to) {
  const Chunk::Identity& identity = live(chunk).chunk.identity();
  KV_CHECK(identity.kind == ChunkKind::read || identity.owner == to,
           "a staging chunk goes to its owner only");
  mappings_.add(chunk, to);
}

void Arena::chunk_unmapped(ChunkId chunk, ConnectionId by) {
  mappings_.remove(chunk, by);
  bury_if_unmapped(chunk);
}

void Arena::connection_closed(ConnectionId connection) {
  for (const ChunkId chunk : mappings_.remove_all(connection)) bury_if_unmapped(chunk);
  for (auto at = chunks_.begin(); at != chunks_.end();) {
    const auto next = std::next(at);
    const Chunk::Identity& identity = at->second.chunk.identity();
    if (identity.kind == ChunkKind::staging && identity.owner == connection) close_chunk(at);
    at = next;
  }
}

bool Arena::could_allocate(const PoolKey& pool, std::uint64_t coming_bytes) const {
  // Which connection wants to stage isn't known here, so only a new chunk counts for it.
  if (pool.kind == ChunkKind::read && with_free_.contains(pool)) return true;
  return planner_.fit(pool.kind, pool.slot_bytes, room_bytes() + coming_bytes).has_value();
}

std::vector<HostArena::Retired> Arena::retire_until_room_for(const PoolKey& pool) {
  const std::map<std::uint64_t, ChunkId> candidates = empty_;
  for (const auto& [since, id] : candidates) {
    if (could_allocate(pool, 0)) return {};
    if (!mappings_.is_mapped(id)) close_chunk(chunks_.find(id));
  }
  // Zombies are room to come: without counting them, each call would retire everything.
  std::vector<Retired> retired;
  for (const auto& [since, id] : candidates) {
    if (could_allocate(pool, zombie_bytes_)) break;
    const auto at = chunks_.find(id);
    if (at == chunks_.end()) continue;
    close_chunk(at);
    retired.push_back({id, mappings_.of(id)});
  }
  return retired;
}

std::vector<HostArena::Retired> Arena::retire_empty_chunks(TenantId tenant, std::uint64_t bytes) {
  return retire_until_room_for({ChunkKind::read, tenant, {}, slot_bytes_for(bytes)});
}

std::vector<HostArena::Retired> Arena::retire_empty_chunks_for_staging(std::uint64_t bytes) {
  return retire_until_room_for({ChunkKind::staging, {}, {}, slot_bytes_for(bytes)});
}

std::vector<ConnectionId> Arena::overdue(MonotonicTime before) const {
  std::set<ConnectionId> late;
  for (const auto& [id, zombie] : zombies_) {
    if (zombie.retired_at >= before) continue;
    for (const ConnectionId connection : mappings_.of(id)) late.insert(connection);
  }
  return {late.begin(), late.end()};
}

// What others ask.

std::optional<ChunkInfo> Arena::find_chunk(ChunkId chunk) const {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return std::nullopt;
  return found->second.chunk.info();
}

std::vector<std::uint32_t> Arena::used_slots(ChunkId chunk) const {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return {};
  return found->second.chunk.used_slots();
}

void Arena::prefault(std::uint64_t bytes) {
  const std::uint64_t each = planner_.prefault_bytes();
  for (std::uint64_t made = 0; made + each <= bytes; made += each) {
    if (room_bytes() < prefaulter_.bytes_held() + each) return;
    auto memory = SharedMemory::create(name_of(ChunkKind::read), each, *options_.system);
    if (!memory) return;  // allocate() will meet the same error and say it
    if (options_.huge_pages) memory->advise_huge_pages();
    prefaulter_.add(*std::move(memory));
  }
}

ArenaStats Arena::stats() const {
  ArenaStats stats;
  stats.budget_bytes = options_.budget_bytes;
  stats.chunk_bytes = alive_bytes_;
  stats.slot_bytes_used = slot_bytes_used_;
  stats.zombie_bytes = zombie_bytes_;
  stats.staging_bytes = staging_bytes_;
  stats.chunks = chunks_.size();
  stats.slots_used = slots_used_;
  stats.slots_total = slots_total_;
  for (const auto& [id, entry] : chunks_) {
    stats.slots_free += entry.chunk.shape().slots - entry.chunk.used();
  }
  KV_CHECK(stats.slots_free + stats.slots_used == stats.slots_total, "a slot is lost or doubled");
  stats.prefaulted_bytes = prefaulter_.bytes_held();
  stats.lock_note = lock_.note();
  stats.refused_chunks = refused_chunks_;
  stats.refusal_note = refusal_note_;
  return stats;
}

}  // namespace

Result<std::unique_ptr<HostArena>> HostArena::create(ArenaOptions options) {
  if (options.budget_bytes < budget_bytes_min) {
    return Error(ErrorKind::invalid_argument,
                 "the host tier's budget must be at least 16 MiB, not " +
                     std::to_string(options.budget_bytes) + " bytes");
  }
  return std::unique_ptr<HostArena>(std::make_unique<Arena>(options));
}

}  // namespace kvstrata::hostmem
