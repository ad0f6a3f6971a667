// What the engine is asked and what it answers: the verbs of protocol 1 as plain data, free of
// bytes on a wire.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hostmem/arena.h"
#include "hostmem/lease.h"
#include "kvstrata/id.h"
#include "kvstrata/keys.h"
#include "kvstrata/protocol.h"
#include "kvstrata/result.h"
#include "storage/store.h"

namespace kvstrata::daemon {

using protocol::BlockRef;
using protocol::StagingRef;
using protocol::Tier;

/// Called once, on the control thread.
template <typename T>
using Done = std::function<void(Result<T>)>;

/// Who asks. Given by the session, never by the client.
struct Caller {
  ConnectionId connection;
  TenantId tenant;
  std::string tenant_name;
  bool admin = false;
  bool shared_memory = false;  ///< file descriptors can be passed
};

enum class SelectBy : std::uint8_t { hash, tokens, key };

/// Blocks as a client names them. Exactly the vector that `by` names is filled.
struct Selection {
  NamespaceId ns;
  std::uint16_t group = 0;
  SelectBy by = SelectBy::hash;
  std::vector<Hash256> hashes;
  std::vector<std::uint32_t> tokens;  ///< from the start of the sequence
  std::vector<std::string> keys;
  std::map<std::uint32_t, std::vector<std::string>> extras;  ///< by block index; tokens only
};

/// New blocks: identities in order, continuing `parent` (none: the sequence's start).
struct NewBlocks {
  NamespaceId ns;
  std::uint16_t group = 0;
  SelectBy by = SelectBy::tokens;  ///< tokens or key
  std::optional<Hash256> parent;
  std::vector<std::uint32_t> tokens;
  std::vector<std::string> keys;
  std::map<std::uint32_t, std::vector<std::string>> extras;
  std::vector<std::uint64_t> lengths;  ///< opaque values: bytes of each
  bool durable = false;
  bool pinned = false;
  std::optional<std::uint64_t> ttl_ms;
};

struct Registered {
  NamespaceId ns;
  Hash256 hash;
  std::uint64_t weight_epoch = 0;
  std::vector<std::uint64_t> block_bytes;  ///< per group
};

/// A lease as its client sees it; id 0: nothing was found, nothing is held.
struct LeaseGrant {
  LeaseId lease;
  hostmem::LeaseSecret secret{};
  std::uint64_t expires_in_ms = 0;
  std::vector<Tier> tiers;  ///< of each block under the lease, in order
};

struct Present {
  std::uint32_t blocks = 0;        ///< consecutive from the start
  std::vector<std::uint8_t> each;  ///< 1: present
};

/// A block ready to be read, or why not. `data` is the daemon's own mapping, for inline replies;
/// it stays valid while the lease does.
struct LoadedBlock {
  std::uint8_t status = 0;  ///< 0 or an ErrorKind
  BlockRef ref;
  const std::byte* data = nullptr;
};

struct Loaded {
  LeaseGrant grant;  ///< GET: a new lease; LOAD: id only
  std::vector<LoadedBlock> blocks;
};

struct Reserved {
  std::vector<StagingRef> slots;
  std::uint64_t expires_in_ms = 0;
};

struct Committed {
  Sequence sequence;                 ///< of the last block that became visible
  std::vector<std::uint8_t> status;  ///< per block: 0 stored, exists, conflict, ...
  std::vector<Hash256> hashes;       ///< per block: its digest
};

struct Removal {
  std::uint64_t removed_blocks = 0;
  std::uint64_t removed_bytes = 0;  ///< of decoded payload where known, else of records
  std::uint64_t kept_pinned = 0;
  std::uint64_t kept_leased = 0;
};

enum class ClearScope : std::uint8_t { tenant, model, ns, prefix };
struct ClearRequest {
  ClearScope scope = ClearScope::tenant;
  std::string fingerprint;  ///< model
  NamespaceId ns;           ///< ns
  Selection prefix;         ///< prefix: its last block and everything that continues it
  bool host_only = false;
  bool also_pinned = false;
};

struct Changed {
  std::uint32_t changed = 0;
  std::uint32_t missing = 0;
};

struct Explanation {
  std::uint32_t blocks = 0;  ///< found
  std::uint32_t wanted = 0;
  std::string reason;  ///< "all blocks are stored", "block 3 is not stored", ...
  std::string field;   ///< the first field that differs from a namespace that has it; may be empty
  std::string detail;
};

/// A block as `ls` and `inspect` show it.
struct BlockDetails {
  BlockKey key;
  std::optional<Hash256> parent;
  std::uint64_t raw_bytes = 0;
  std::uint64_t frame_bytes = 0;  ///< 0: not on disk (yet)
  std::string codec;
  bool in_host = false, on_disk = false, pinned = false;
  bool unadmitted = false;  ///< in host memory alone: not admitted to the disk so far
  std::uint32_t leases = 0;
  std::uint64_t payload_xxh3 = 0;
  std::uint64_t created_unix_ms = 0, expires_unix_ms = 0;
  std::optional<storage::RecordLocation> where;
  std::vector<std::uint32_t> tokens;  ///< INSPECT only
  std::string opaque_key;             ///< INSPECT only
};

struct NamespaceDetails {
  storage::NamespaceRecord record;
  std::uint64_t weight_epoch_now = 0;
};

struct Page {
  std::vector<BlockDetails> blocks;
  std::optional<BlockKey> next;
};

struct Verified {
  std::uint32_t checked = 0;
  std::uint32_t bad = 0;
  std::uint64_t bytes = 0;  ///< decoded
  std::vector<std::string> bad_keys;
  std::optional<BlockKey> next;
};

/// Counters since start, gauges now. Names are documented in doc/metrics.md.
struct EngineStats {
  std::map<std::string, std::uint64_t> counters;
  std::map<std::string, std::uint64_t> gauges;
  std::map<std::string, std::string> notes;
  std::string admission;  ///< name of the policy
  hostmem::ArenaStats arena;
  hostmem::LeaseStats leases;
  storage::StoreStats store;
};

/// Something that happened, for connections that WATCH or that map memory.
struct Event {
  enum class Kind : std::uint8_t { chunks_retired, stored, removed, epoch_changed };
  Kind kind = Kind::stored;
  ConnectionId to;  ///< chunks_retired: this connection; else every watcher of `tenant`
  TenantId tenant;
  std::vector<ChunkId> chunks;
  NamespaceId ns;
  std::uint16_t group = 0;
  Tier tier = Tier::none;
  std::vector<Hash256> hashes;
  std::string fingerprint;
  std::uint64_t weight_epoch = 0;
};

}  // namespace kvstrata::daemon
