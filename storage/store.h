// A Store is the durable tier: frames in log-structured segments, and a transactional index that
// knows a record only after its bytes are synced. It sees frames as bytes.
//
// Threads: every method may be called from any thread. Completions of append() run on the store's
// writer thread, those of read() on its reader thread; they must be short and must not call back
// into the store's blocking methods. Lifetime: close() (or the destructor) drains both.
// Formats: doc/segment-format.md, doc/index-format.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvstrata/clock.h"
#include "kvstrata/id.h"
#include "kvstrata/keys.h"
#include "kvstrata/result.h"
#include "storage/device/aligned_buffer.h"
#include "storage/device/device.h"
#include "storage/frame_buffer.h"
#include "storage/index_entry.h"

namespace rocksdb {
class Env;
}

namespace kvstrata::storage {

struct StoreOptions {
  std::string directory;                ///< created (0700) if missing; one process at a time
  std::uint64_t disk_budget_bytes = 0;  ///< payload + index + logs; at least 64 MiB
  DeviceKind device = DeviceKind::automatic;
  std::uint64_t segment_bytes = 0;  ///< 0: clamp(budget / 16, 4 MiB, 256 MiB); multiple of 4096
  /// Sync after so much (after more while the disk is behind), or after so long.
  std::uint64_t group_commit_bytes = std::uint64_t{8} << 20;
  Milliseconds group_commit_delay{5};
  std::size_t read_queue_depth = 128;   ///< requests in flight; as many of the writer
  std::size_t append_queue_max = 1024;  ///< appends not yet durable; more are `busy`
  const Clock* clock = &Clock::system();
  /// Test hook: wraps every device the store opens (fault injection). May be empty.
  std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> wrap_device;
  /// Test hook: opens the device that the segments lie on, in place of one on the directory; it is
  /// cloned for the second thread, and wrapped as any. May be empty.
  std::function<Result<std::unique_ptr<Device>>()> open_segments;
  /// Test hook: the machine as RocksDB sees it, its file system above all; null: the real one. It
  /// outlives the store.
  rocksdb::Env* index_environment = nullptr;
  /// Test hook: the index's share of the budget; 0: a sixteenth, 16 MiB to 4 GiB. With it the
  /// budget may be as small as six segments need.
  std::uint64_t index_reserve_bytes = 0;
  /// Test hook: called with the name of each named point ("after-data-sync", "after-index-write",
  /// "before-segment-reuse", "writer-turn", ...) on the thread that reaches it. May be empty.
  std::function<void(std::string_view point)> at_point;
};

/// One block to store. `identity` is what a reader must present again: the token ids of the block
/// (u32 little-endian) or the whole opaque key; it is written into the record.
struct AppendRequest {
  BlockKey key;
  std::optional<Hash256> parent;
  ByteVector identity;
  FrameBuffer frame;              ///< the encoded frame, owned until durable
  std::uint64_t frame_bytes = 0;  ///< used part of `frame`
  std::uint64_t raw_bytes = 0;
  std::uint64_t payload_xxh3 = 0;
  std::uint8_t codec = 0;
  TableId table;
  std::uint64_t expires_unix_ms = 0;
  bool pinned = false;
};

/// Ends an append: the entry once its bytes and its index record are synced, or why not.
using AppendDone = std::function<void(Result<IndexEntry>)>;

/// A record as read back. Its header checksum, key and length were verified, the frame's content
/// is the codec's to check.
struct ReadRecord {
  AlignedBuffer buffer;
  ByteView frame;     ///< inside buffer
  ByteView identity;  ///< inside buffer
};
using ReadDone = std::function<void(Result<ReadRecord>)>;

/// A registered namespace, as kept in the index.
struct NamespaceRecord {
  NamespaceId id;
  Hash256 hash;
  std::string tenant;
  NamespaceSpec spec;
  std::uint64_t created_unix_ms = 0;
};

/// A block that left the index, and what it was.
struct RemovedBlock {
  BlockKey key;
  std::uint64_t payload_xxh3 = 0;
};

/// How many blocks and bytes one operation removed or kept.
struct RemovalCounts {
  std::uint64_t removed_blocks = 0;
  std::uint64_t removed_bytes = 0;  ///< of records
  std::uint64_t kept_pinned = 0;
  std::vector<RemovedBlock> removed;  ///< by erase() only
};

struct StoreStats {
  std::uint64_t blocks = 0;
  std::uint64_t live_bytes = 0;     ///< of records the index names
  std::uint64_t segment_bytes = 0;  ///< of segment files on disk
  std::uint64_t index_bytes = 0;    ///< of RocksDB's files, logs included
  std::uint64_t index_stalls = 0;   ///< times RocksDB began to slow or stop writes, this run
  std::uint64_t budget_bytes = 0;
  std::uint64_t segments = 0, free_segments = 0, condemned_segments = 0;
  std::uint64_t segments_max = 0;       ///< of the present size, within the budget
  std::uint64_t segments_openable = 0;  ///< before something has to be reclaimed
  std::uint64_t aside_bytes = 0;        ///< left by an index that could not be opened, until needed
  std::uint64_t appended_blocks = 0, appended_bytes = 0;  ///< this run, host writes
  std::uint64_t reinserted_bytes = 0;                     ///< this run, moved by reclaim
  std::uint64_t reclaimed_segments = 0, dropped_blocks = 0, expired_blocks = 0;
  bool reclaiming = false;  ///< a segment is being emptied at this moment
  std::uint64_t group_commits = 0;
  std::uint64_t read_blocks = 0, read_bytes = 0;
  std::uint64_t corrupt_records = 0, read_errors = 0, write_errors = 0;
  std::uint64_t appends_in_flight = 0, append_bytes_in_flight = 0;
  std::string device;           ///< "io_uring", "psync"
  std::string device_fallback;  ///< why, if a fallback was taken
  bool writable = true;
  std::string degraded;  ///< empty: healthy; else the reason
};

/// What goes or went wrong in this run; cheap, to be asked for often.
struct StoreTroubles {
  std::string degraded;  ///< why no block becomes durable at present; empty: healthy
  std::uint64_t corrupt_records = 0, read_errors = 0, write_errors = 0;
  std::uint64_t condemned_segments = 0;  ///< given up after a failed sync
  std::uint64_t lost_segments = 0;       ///< whose file was gone or cut
};

/// A store counted anew from its index and directory, beside what it believes.
struct StoreAudit {
  std::uint64_t segments = 0;
  std::uint64_t wrong_segments = 0;  ///< whose count differs from what is found
  std::uint64_t blocks_counted = 0, blocks_found = 0;
  std::uint64_t bytes_counted = 0, bytes_found = 0;  ///< of records, as live_bytes
  std::uint64_t disk_bytes = 0, budget_bytes = 0;    ///< of the whole directory
  std::vector<std::string> missing_files;            ///< segments without a file
  std::vector<std::string> foreign_files;            ///< beside the segments, none of ours
};

class Store {
 public:
  /// Opens or creates. `locked` if another process has it, with that process's id if known.
  /// Never scans segments. An index that can't be opened is moved aside (the message says where)
  /// and the store starts empty; opened_empty_because() then says so.
  static Result<std::unique_ptr<Store>> open(StoreOptions options);
  virtual ~Store() = default;

  virtual std::string_view opened_empty_because() const = 0;  ///< empty: normal
  virtual std::string id_hex() const = 0;                     ///< of the identity file, 32 digits

  // ---- namespaces, epochs, codec tables (synced before return)
  /// The id of this spec's namespace, created if new.
  virtual Result<NamespaceId> register_namespace(const NamespaceSpec& spec) = 0;
  virtual std::vector<NamespaceRecord> namespaces() const = 0;
  virtual std::uint64_t weight_epoch(std::string_view tenant,
                                     std::string_view fingerprint) const = 0;
  virtual Result<std::uint64_t> bump_weight_epoch(std::string_view tenant,
                                                  std::string_view fingerprint) = 0;
  /// Stores serialised codec tables; at most 16 live ones a namespace (`too_large` beyond).
  virtual Result<TableId> add_table(NamespaceId ns, ByteView table) = 0;
  virtual Result<ByteVector> table(NamespaceId ns, TableId id) const = 0;
  virtual std::vector<TableId> tables(NamespaceId ns) const = 0;

  // ---- blocks
  /// Queues a block. `done` runs once, also when this returned ok and the store closes; if this
  /// returns an error (`busy`, `out_of_space`, `too_large`), `done` never runs.
  virtual Status append(AppendRequest request, AppendDone done) = 0;
  /// Returns after everything appended before is durable or failed.
  virtual Status flush() = 0;
  /// entries[i] is what the index says of keys[i]; expired entries are absent. One MultiGet.
  virtual Status find(std::span<const BlockKey> keys,
                      std::span<std::optional<IndexEntry>> entries) const = 0;
  /// Queues a read. The segment stays until `done` ran. A record that fails its checks is removed
  /// from the index, counted, and answered `corrupt`; one that moved meanwhile is followed.
  virtual void read(const BlockKey& key, const IndexEntry& entry, ReadDone done) = 0;
  /// The block is wanted: reclaim will reinsert it and its ancestors. In memory only.
  virtual void touch(std::span<const BlockKey> keys) = 0;
  /// While held (counted), reclaim keeps these blocks.
  virtual void hold(std::span<const BlockKey> keys) = 0;
  virtual void unhold(std::span<const BlockKey> keys) = 0;
  virtual Status set_pinned(std::span<const BlockKey> keys, bool pinned) = 0;
  virtual Status set_expiry(std::span<const BlockKey> keys, std::uint64_t expires_unix_ms) = 0;

  /// Removes blocks (and, with_descendants, everything that continues them). Gone when it returns.
  virtual Result<RemovalCounts> erase(std::span<const BlockKey> keys, bool with_descendants,
                                      bool also_pinned) = 0;
  virtual Result<RemovalCounts> erase_namespace(NamespaceId ns, bool also_pinned) = 0;
  /// Up to `limit` entries of a namespace after `after` in key order.
  virtual Result<std::vector<std::pair<BlockKey, IndexEntry>>> list(NamespaceId ns,
                                                                    std::optional<BlockKey> after,
                                                                    std::size_t limit) const = 0;

  /// Called (on the writer thread) with keys that reclaim, expiry or corruption removed.
  virtual void on_dropped(std::function<void(std::span<const BlockKey>)> callback) = 0;

  virtual StoreStats stats() const = 0;
  virtual StoreTroubles troubles() const = 0;
  /// Takes a while, and holds changes up for moments.
  virtual Result<StoreAudit> audit() = 0;
};

}  // namespace kvstrata::storage
