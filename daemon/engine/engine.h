// The Engine is the daemon without its sockets: it ties the host tier, the codecs and the store
// together and answers the verbs of protocol 1.
//
// Threads: every method runs on the control thread, and so does every Done. Copies, codecs and
// index look-ups run on workers and come back by `control`. A request whose client is gone may
// still be answered; what the answer grants (a lease) ends with the connection. Lifetime: drain()
// first, then destroy; both on the control thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/engine/executor.h"
#include "daemon/engine/requests.h"

namespace kvstrata::daemon {

struct EngineOptions {
  storage::StoreOptions store;
  hostmem::ArenaOptions arena;
  std::size_t worker_threads = 2;         ///< copies, index look-ups, decoding
  std::size_t encode_threads = 1;         ///< background encoding
  std::uint64_t staging_bytes_max = 0;    ///< over all connections; 0: a quarter of the arena
  std::uint64_t unflushed_bytes_max = 0;  ///< 0: a quarter of the arena
  Milliseconds lease_period_max{600'000};
  Milliseconds reservation_period{30'000};  ///< a slot not committed by then is taken back
  std::size_t directory_entries_max = 1u << 20;
  std::uint64_t prefault_bytes = 0;
  /// For blocks at rest: "raw", "static", or "linear": static until a linear model is fitted, then
  /// whichever of the two is shorter.
  std::string codec = "static";
  std::uint64_t linear_fit_tokens = 24'576;    ///< stored before there is a fit, and fitted on
  std::uint64_t linear_fit_bytes_max = 1_GiB;  ///< of memory while there is one
  std::string admission = "all";               ///< to the disk: "all" or "second-use"
  /// Test hook: false lets "second-use" decline blocks while the disk has plenty of room, too.
  bool admit_all_until_full = true;
  const Clock* clock = &Clock::system();
  /// Test hook: called with the name of each named point ("after-index-read") on the thread that
  /// reaches it. May be empty. The store has points of its own.
  std::function<void(std::string_view point)> at_point;
};

class Engine {
 public:
  /// Opens the store. `control` must outlive the engine.
  static Result<std::unique_ptr<Engine>> create(EngineOptions options, Executor& control);
  virtual ~Engine() = default;

  virtual void on_event(std::function<void(const Event&)> listener) = 0;
  virtual void connection_closed(ConnectionId connection) = 0;
  /// Housekeeping; call about every 100 ms. Returns connections to disconnect, with the reason.
  virtual std::vector<std::pair<ConnectionId, std::string>> tick() = 0;
  /// No new work; `done` after everything visible is durable (or failed) or `limit` passed.
  virtual void drain(Milliseconds limit, std::function<void()> done) = 0;

  virtual void register_namespace(const Caller&, NamespaceSpec spec, Done<Registered>) = 0;
  virtual void lookup(const Caller&, Selection, Milliseconds period, Done<LeaseGrant>) = 0;
  /// One length for several shards; all their blocks up to it are leased, one lease each.
  virtual void group_lookup(const Caller&, std::vector<Selection>, Milliseconds period,
                            Done<std::vector<LeaseGrant>>) = 0;
  virtual void exists(const Caller&, Selection, Done<Present>) = 0;
  /// `expected_tokens`: empty, or the token ids of exactly these blocks.
  virtual void load(const Caller&, LeaseId, std::uint32_t first, std::uint32_t count,
                    std::vector<std::uint32_t> expected_tokens, Done<Loaded>) = 0;
  /// LOOKUP and LOAD in one. `prefix`: stop at the first miss; else each block for itself.
  virtual void get(const Caller&, Selection, bool prefix, Milliseconds period, Done<Loaded>) = 0;
  virtual Result<std::uint64_t> renew(const Caller&, LeaseId, Milliseconds period) = 0;
  virtual Result<LeaseGrant> attach(const Caller&, LeaseId, const hostmem::LeaseSecret&) = 0;
  virtual Status release(const Caller&, LeaseId) = 0;

  virtual Result<Reserved> reserve(const Caller&, NamespaceId, std::uint16_t group,
                                   std::uint32_t slots, std::uint64_t bytes) = 0;
  /// slots[i] holds block i of `blocks`. All slots are taken back, whatever the answer.
  virtual void commit(const Caller&, NewBlocks blocks, std::vector<std::uint64_t> slots,
                      Done<Committed>) = 0;
  virtual std::uint32_t abort(const Caller&, const std::vector<std::uint64_t>& slots) = 0;
  /// Values follow one another in `values`, which the engine keeps until `done`.
  virtual void put(const Caller&, NewBlocks blocks, std::shared_ptr<const ByteVector> values,
                   std::uint64_t values_offset, Done<Committed>) = 0;
  /// `sequence` none: everything visible now.
  virtual void flush(const Caller&, std::optional<Sequence> sequence, Done<Sequence>) = 0;

  virtual void pin(const Caller&, Selection, bool pinned, Done<Changed>) = 0;
  virtual void set_ttl(const Caller&, Selection, std::uint64_t ttl_ms, Done<Changed>) = 0;
  virtual void remove(const Caller&, Selection, bool descendants, Done<Removal>) = 0;
  virtual void clear(const Caller&, ClearRequest, Done<Removal>) = 0;
  virtual void evict(const Caller&, std::uint64_t bytes, Done<Removal>) = 0;
  virtual void bump_weight_epoch(const Caller&, std::string fingerprint, Done<std::uint64_t>) = 0;

  virtual void explain(const Caller&, Selection, Done<Explanation>) = 0;
  virtual void list_namespaces(const Caller&, Done<std::vector<NamespaceDetails>>) = 0;
  virtual void list_blocks(const Caller&, NamespaceId, std::optional<BlockKey> after,
                           std::size_t limit, Done<Page>) = 0;
  virtual void inspect(const Caller&, BlockKey, Done<BlockDetails>) = 0;
  virtual void verify(const Caller&, NamespaceId, std::optional<BlockKey> after, std::size_t limit,
                      Done<Verified>) = 0;
  virtual void audit(Done<storage::StoreAudit>) = 0;
  virtual EngineStats stats(const Caller&) const = 0;
  virtual storage::StoreTroubles disk_troubles() const = 0;

  // ---- shared memory, for the session that passes descriptors
  virtual std::optional<hostmem::ChunkInfo> find_chunk(ChunkId) const = 0;
  virtual void chunk_sent(ChunkId, ConnectionId) = 0;
  virtual void chunk_unmapped(ChunkId, ConnectionId) = 0;
};

}  // namespace kvstrata::daemon
