// A Block is what the engine knows of one stored block: its copy in host memory, its record on
// disk, who holds it. Control thread only, except the bytes of a slot while a worker fills or reads
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hostmem/arena.h"
#include "hostmem/eviction_policy.h"
#include "kvstrata/id.h"
#include "kvstrata/keys.h"
#include "storage/store.h"

namespace kvstrata::daemon {

struct Block {
  /// absent: no host copy. filling: a worker writes it. ready: may be handed out.
  enum class HostCopy : std::uint8_t { absent, filling, ready };

  std::optional<storage::IndexEntry> entry;  ///< the record on disk
  // What look-ups read and leases change lies together, behind the flag that ends `entry`.
  std::uint64_t expires_unix_ms = 0;
  MonotonicTime touched_on_disk{};
  std::uint32_t holds = 0;          ///< leases and work in flight; memory stays while > 0
  std::uint32_t record_leases = 0;  ///< leases that count on the record on disk
  HostCopy host = HostCopy::absent;
  bool record_held = false;  ///< the store was told to keep it
  bool dead = false;         ///< nobody finds it, its memory goes with the last hold
  bool dirty = false;        ///< visible, not yet durable
  bool unwanted = false;     ///< removed while dirty: its key has a tombstone until the write ended
  bool pinned = false;
  bool unadmitted = false;  ///< in host memory alone: the admission policy declined it
  bool must_write = false;  ///< being put, and to be admitted since what continues it was

  BlockKey key;
  std::optional<Hash256> parent;
  std::optional<std::uint32_t> first_position;  ///< of its first token in the sequence, if known
  TenantId tenant;
  std::uint64_t raw_bytes = 0;
  std::uint64_t xxh3 = 0;  ///< of the payload; known once ready or on disk
  ByteVector identity;     ///< token ids or opaque key; kept while in host memory
  hostmem::Slot slot;

  Sequence sequence;
  std::uint64_t write_order = 0;  ///< when it was handed to the Flusher
  ConnectionId writer;
  std::vector<ConnectionId> relying;  ///< who else is to be told if it can't be written
  std::uint64_t created_unix_ms = 0;
  hostmem::EvictionPolicy* order = nullptr;  ///< the one that lists it, if any
  std::vector<std::function<void(Status)>> on_filled;

  bool is_visible(std::uint64_t unix_ms) const {
    const bool expired = expires_unix_ms != 0 && expires_unix_ms <= unix_ms;
    return !dead && !expired && (host == HostCopy::ready || entry.has_value());
  }
};

using BlockPtr = std::shared_ptr<Block>;

}  // namespace kvstrata::daemon
