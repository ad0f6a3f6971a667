// A BlockDirectory finds blocks by key and owns the host tier: which blocks are in memory, which go
// when room is needed. It also remembers entries of the disk index, boundedly, so that look-ups of
// warm prefixes never reach RocksDB. Control thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/engine/block.h"
#include "daemon/engine/core.h"
#include "hostmem/eviction_policy.h"
#include "include/impl/block_map.h"

namespace kvstrata::daemon {

class BlockDirectory {
 public:
  explicit BlockDirectory(Core& core);

  BlockPtr find(const BlockKey& key) const;
  /// Asks the processor for the memory of many blocks at a time, before one by one is looked at.
  void prefetch(std::span<const BlockKey> keys) const;
  /// A new block without any copy; its key must not be known.
  BlockPtr add(const BlockKey& key, TenantId tenant);
  /// The block of an index entry, known before or not.
  BlockPtr remember(const BlockKey& key, TenantId tenant, const storage::IndexEntry& entry);
  /// Nobody finds the block from now on; its memory goes with its last hold.
  void forget(const BlockPtr& block);
  /// Called with each block that is forgotten, whatever the reason.
  void on_forgotten(std::function<void(Block&)> callback) { on_forgotten_ = std::move(callback); }
  /// The record on disk is gone; forgets the block if nothing else is left of it.
  void lost_record(const BlockKey& key);

  /// Gives the block a slot of raw_bytes, evicting others if needed; host becomes filling.
  /// `busy`: everything that could go is held, or the system refuses memory.
  Status allocate(const BlockPtr& block);
  void publish(const BlockPtr& block);                    ///< filling -> ready, runs on_filled
  void abandon(const BlockPtr& block, const Error& why);  ///< filling -> absent, runs on_filled
  void drop_host_copy(const BlockPtr& block);

  void hold(const BlockPtr& block) { ++block->holds; }
  void unhold(const BlockPtr& block);

  /// The blocks of a prefix were wanted, in order.
  void touch(std::span<const BlockPtr> prefix);
  /// Evicts until `bytes` are freed or nothing may go; of one tenant, if given.
  Removal evict(std::optional<TenantId> tenant, std::uint64_t bytes);
  /// Makes room for staging memory: empties and closes chunks. True if something was freed.
  bool retire_for_staging(std::uint64_t bytes);

  void for_each(const std::function<void(const BlockPtr&)>& visit) const;
  std::size_t size() const { return blocks_.size(); }
  std::size_t blocks_in_host() const { return host_order_->size(); }

 private:
  bool may_evict(const Block& block) const;
  bool evict_for(TenantId tenant, std::uint64_t bytes);
  bool evict_one_like(const Block& wanted);
  bool empty_a_chunk();
  void count_evicted(const Block& block);
  void announce(const std::vector<hostmem::HostArena::Retired>& closed);
  static void list_in(Block& block, hostmem::EvictionPolicy* order);
  void free_memory(Block& block);
  void trim_disk_entries();

  Core& core_;
  BlockMap<BlockPtr> blocks_;
  std::unordered_map<ChunkId, std::unordered_map<std::uint32_t, Block*>> by_slot_;
  std::unique_ptr<hostmem::EvictionPolicy> host_order_;  ///< blocks with a ready copy
  std::unique_ptr<hostmem::EvictionPolicy> disk_order_;  ///< blocks known by their entry alone
  std::function<void(Block&)> on_forgotten_;
};

}  // namespace kvstrata::daemon
