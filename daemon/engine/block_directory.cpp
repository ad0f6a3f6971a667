#include "daemon/engine/block_directory.h"

#include <algorithm>
#include <utility>

namespace kvstrata::daemon {

namespace {

constexpr std::size_t victims_looked_at_max = 8192;
constexpr std::chrono::seconds disk_touch_period{5};

}  // namespace

BlockDirectory::BlockDirectory(Core& core)
    : core_(core),
      host_order_(hostmem::make_lru_policy()),
      disk_order_(hostmem::make_lru_policy()) {}

BlockPtr BlockDirectory::find(const BlockKey& key) const {
  const auto at = blocks_.find(key);
  return at == blocks_.end() ? nullptr : at->second;
}

void BlockDirectory::prefetch(std::span<const BlockKey> keys) const {
  for (const BlockKey& key : keys) {
    const auto at = blocks_.find(key);
    if (at == blocks_.end()) continue;
    const Block* block = at->second.get();
    __builtin_prefetch(block, 1);  // the pointer's count lies before it
    __builtin_prefetch(&block->expires_unix_ms, 1);
  }
}

BlockPtr BlockDirectory::add(const BlockKey& key, TenantId tenant) {
  auto block = std::make_shared<Block>();
  block->key = key;
  block->tenant = tenant;
  const bool is_new = blocks_.emplace(key, block).second;
  KV_CHECK(is_new, "a block is added once");
  return block;
}

BlockPtr BlockDirectory::remember(const BlockKey& key, TenantId tenant,
                                  const storage::IndexEntry& entry) {
  BlockPtr block = find(key);
  if (block == nullptr) {
    trim_disk_entries();
    block = add(key, tenant);
    block->parent = entry.parent;
    block->raw_bytes = entry.raw_bytes;
    block->xxh3 = entry.payload_xxh3;
    block->pinned = entry.pinned;
    block->expires_unix_ms = entry.expires_unix_ms;
    block->created_unix_ms = entry.created_unix_ms;
    list_in(*block, disk_order_.get());
  }
  block->entry = entry;
  return block;
}

void BlockDirectory::forget(const BlockPtr& block) {
  if (block->dead) return;
  block->dead = true;
  list_in(*block, nullptr);
  blocks_.erase(block->key);
  if (on_forgotten_) on_forgotten_(*block);
  if (block->holds == 0 && block->host == Block::HostCopy::ready) free_memory(*block);
}

void BlockDirectory::lost_record(const BlockKey& key) {
  const BlockPtr block = find(key);
  if (block == nullptr) return;
  block->entry.reset();
  if (block->host == Block::HostCopy::absent && !block->dirty) forget(block);
}

Status BlockDirectory::allocate(const BlockPtr& block) {
  KV_CHECK(block->host == Block::HostCopy::absent, "one host copy a block");
  std::uint64_t refused_chunks = core_.arena->refused_chunks();
  for (bool refused_before = false;;) {
    auto slot = core_.arena->allocate(block->tenant, std::max<std::uint64_t>(block->raw_bytes, 1));
    if (slot) {
      block->slot = *slot;
      block->host = Block::HostCopy::filling;
      by_slot_[slot->chunk][slot->index] = block.get();
      list_in(*block, nullptr);
      return {};
    }
    if (slot.error().kind() != ErrorKind::out_of_memory) return slot.error();
    if (core_.arena->refused_chunks() != refused_chunks) {
      refused_chunks = core_.arena->refused_chunks();
      if (evict_one_like(*block)) continue;
      // Once more with what a closed chunk gave back: to go on would empty the tier for nothing.
      if (std::exchange(refused_before, true)) {
        return Error(ErrorKind::busy, slot.error().message());
      }
    }
    if (!evict_for(block->tenant, block->raw_bytes)) {
      return Error(ErrorKind::busy,
                   "host memory is held by leases and blocks not yet on disk; try again, or give "
                   "[memory] size more");
    }
  }
}

void BlockDirectory::publish(const BlockPtr& block) {
  core_.arena->publish(block->slot);
  block->host = Block::HostCopy::ready;
  if (!block->dead) list_in(*block, host_order_.get());
  for (auto& waiter : std::exchange(block->on_filled, {})) waiter({});
  if (block->dead && block->holds == 0) free_memory(*block);
}

void BlockDirectory::abandon(const BlockPtr& block, const Error& why) {
  KV_CHECK(block->host == Block::HostCopy::filling, "only a filling copy is abandoned");
  free_memory(*block);
  const auto waiters = std::exchange(block->on_filled, {});
  if (!block->dead) {
    if (block->entry) {
      list_in(*block, disk_order_.get());
    } else {
      forget(block);
    }
  }
  for (const auto& waiter : waiters) waiter(why);
}

void BlockDirectory::drop_host_copy(const BlockPtr& block) {
  KV_CHECK(block->host == Block::HostCopy::ready && block->holds == 0, "nobody reads the copy");
  list_in(*block, nullptr);
  free_memory(*block);
  if (block->entry) {
    list_in(*block, disk_order_.get());
    trim_disk_entries();
  } else {
    forget(block);
  }
}

void BlockDirectory::unhold(const BlockPtr& block) {
  KV_CHECK(block->holds > 0, "holds are counted");
  --block->holds;
  if (block->dead && block->holds == 0 && block->host == Block::HostCopy::ready) {
    free_memory(*block);
  }
}

void BlockDirectory::touch(std::span<const BlockPtr> prefix) {
  std::vector<BlockKey> in_host;
  std::vector<BlockKey> on_disk;
  const MonotonicTime now = core_.clock.now();
  for (const BlockPtr& block : prefix) {
    if (block->host == Block::HostCopy::ready) in_host.push_back(block->key);
    // Reclaim looks at hours, not at milliseconds: saying it each time would cost look-ups a lock
    // and two hash maps.
    if (block->entry && now - block->touched_on_disk > disk_touch_period) {
      block->touched_on_disk = now;
      on_disk.push_back(block->key);
    }
  }
  if (!in_host.empty()) host_order_->touched(in_host);
  if (on_disk.empty()) return;
  disk_order_->touched(on_disk);
  core_.store->touch(on_disk);
}

bool BlockDirectory::may_evict(const Block& block) const {
  return block.host == Block::HostCopy::ready && block.holds == 0 && !block.dirty;
}

Removal BlockDirectory::evict(std::optional<TenantId> tenant, std::uint64_t bytes) {
  Removal removal;
  while (removal.removed_bytes < bytes) {
    const auto key = host_order_->victim(
        [&](const BlockKey& candidate) {
          const BlockPtr block = find(candidate);
          return may_evict(*block) && (!tenant || block->tenant == *tenant);
        },
        victims_looked_at_max);
    if (!key) break;
    const BlockPtr block = find(*key);
    ++removal.removed_blocks;
    removal.removed_bytes += block->raw_bytes;
    count_evicted(*block);
    drop_host_copy(block);
  }
  return removal;
}

// Frees a slot that serves `wanted` as it is, without anything new from the system.
bool BlockDirectory::evict_one_like(const Block& wanted) {
  const std::uint64_t size_class = core_.arena->size_class(wanted.raw_bytes);
  const auto key = host_order_->victim(
      [&](const BlockKey& candidate) {
        const BlockPtr block = find(candidate);
        return may_evict(*block) && block->tenant == wanted.tenant &&
               core_.arena->size_class(block->raw_bytes) == size_class;
      },
      victims_looked_at_max);
  if (!key) return false;
  const BlockPtr block = find(*key);
  count_evicted(*block);
  drop_host_copy(block);
  return true;
}

// Frees one slot that serves (tenant, bytes), or a whole chunk whose memory can become one.
bool BlockDirectory::evict_for(TenantId tenant, std::uint64_t bytes) {
  const std::uint64_t before = core_.arena->stats().chunk_bytes;
  announce(core_.arena->retire_empty_chunks(tenant, bytes));
  if (core_.arena->stats().chunk_bytes < before) return true;
  const auto any = [this](const BlockKey& key) { return may_evict(*find(key)); };
  const auto key = host_order_->victim(any, victims_looked_at_max);
  if (!key) return false;
  const BlockPtr block = find(*key);
  const bool fits = block->tenant == tenant &&
                    core_.arena->size_class(block->raw_bytes) == core_.arena->size_class(bytes);
  if (!fits && empty_a_chunk()) {
    announce(core_.arena->retire_empty_chunks(tenant, bytes));
  } else {
    count_evicted(*block);
    drop_host_copy(block);
  }
  return true;  // at least one block went, so this ends
}

bool BlockDirectory::retire_for_staging(std::uint64_t bytes) {
  const std::uint64_t before = core_.arena->stats().chunk_bytes;
  announce(core_.arena->retire_empty_chunks_for_staging(bytes));
  if (core_.arena->stats().chunk_bytes == before && empty_a_chunk()) {
    announce(core_.arena->retire_empty_chunks_for_staging(bytes));
  }
  return core_.arena->stats().chunk_bytes < before;
}

// Evicts all blocks of the chunk of the first victim whose whole chunk may go. Emptying one in
// which something stays would cost hits and free nothing.
bool BlockDirectory::empty_a_chunk() {
  std::unordered_map<ChunkId, bool> may_go;
  const auto whole_chunk = [&](const BlockKey& key) {
    const ChunkId chunk = find(key)->slot.chunk;
    const auto [at, is_new] = may_go.try_emplace(chunk, true);
    if (is_new) {
      at->second = std::ranges::all_of(by_slot_.at(chunk), [this](const auto& used) {
        return !used.second->dead && may_evict(*used.second);
      });
    }
    return at->second;
  };
  const auto key = host_order_->victim(whole_chunk, victims_looked_at_max);
  if (!key) return false;
  std::vector<BlockPtr> blocks;
  for (const auto& [index, block] : by_slot_.at(find(*key)->slot.chunk)) {
    blocks.push_back(find(block->key));
  }
  for (const BlockPtr& block : blocks) {
    count_evicted(*block);
    drop_host_copy(block);
  }
  return true;
}

void BlockDirectory::count_evicted(const Block& block) {
  ++core_.counters.evicted_blocks;
  core_.counters.evicted_bytes += block.raw_bytes;
  core_.counters.evicted_unadmitted_blocks += block.unadmitted ? 1 : 0;
}

// Clients that map a closed chunk are asked to unmap it; until then it counts as memory.
void BlockDirectory::announce(const std::vector<hostmem::HostArena::Retired>& closed) {
  for (const auto& retired : closed) {
    for (const ConnectionId connection : retired.mapped_by) {
      Event event;
      event.kind = Event::Kind::chunks_retired;
      event.to = connection;
      event.chunks = {retired.chunk};
      core_.emit(event);
    }
  }
}

// A block is listed where it would be given up: by the host tier's policy while it has a copy
// there, else by that of the disk entries, in neither while a copy is being filled.
void BlockDirectory::list_in(Block& block, hostmem::EvictionPolicy* order) {
  if (block.order != nullptr) block.order->removed(block.key);
  block.order = order;
  if (order != nullptr) order->inserted(block.key, block.raw_bytes);
}

void BlockDirectory::free_memory(Block& block) {
  const auto chunk = by_slot_.find(block.slot.chunk);
  chunk->second.erase(block.slot.index);
  if (chunk->second.empty()) by_slot_.erase(chunk);
  core_.arena->free_slot(block.slot);
  block.slot = {};
  block.host = Block::HostCopy::absent;
  block.identity = {};
}

void BlockDirectory::trim_disk_entries() {
  while (disk_order_->size() > core_.options.directory_entries_max) {
    const auto key = disk_order_->victim(
        [this](const BlockKey& candidate) {
          const BlockPtr block = find(candidate);
          return block->holds == 0 && block->host == Block::HostCopy::absent && !block->dirty;
        },
        victims_looked_at_max);
    if (!key) return;
    forget(find(*key));
  }
}

void BlockDirectory::for_each(const std::function<void(const BlockPtr&)>& visit) const {
  for (const auto& [key, block] : blocks_) visit(block);
}

}  // namespace kvstrata::daemon
