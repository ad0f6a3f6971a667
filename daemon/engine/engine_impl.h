// EngineImpl: the engine's parts put together. Verbs that read and write blocks are in engine.cpp,
// those of administration in engine_admin.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/block_directory.h"
#include "daemon/engine/core.h"
#include "daemon/engine/disk_gate.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/finder.h"
#include "daemon/engine/flusher.h"
#include "daemon/engine/lease_desk.h"
#include "daemon/engine/loader.h"
#include "daemon/engine/namespaces.h"
#include "daemon/engine/parameter_fitter.h"
#include "daemon/engine/put_path.h"
#include "daemon/engine/remover.h"

namespace kvstrata::daemon {

class EngineImpl final : public Engine {
 public:
  EngineImpl(EngineOptions options, Executor& control);
  ~EngineImpl() override;

  Status open();

  void on_event(std::function<void(const Event&)> listener) override;
  void connection_closed(ConnectionId connection) override;
  std::vector<std::pair<ConnectionId, std::string>> tick() override;
  void drain(Milliseconds limit, std::function<void()> done) override;

  void register_namespace(const Caller& caller, NamespaceSpec spec, Done<Registered> done) override;
  void lookup(const Caller& caller, Selection selection, Milliseconds period,
              Done<LeaseGrant> done) override;
  void group_lookup(const Caller& caller, std::vector<Selection> shards, Milliseconds period,
                    Done<std::vector<LeaseGrant>> done) override;
  void exists(const Caller& caller, Selection selection, Done<Present> done) override;
  void load(const Caller& caller, LeaseId lease, std::uint32_t first, std::uint32_t count,
            std::vector<std::uint32_t> expected_tokens, Done<Loaded> done) override;
  void get(const Caller& caller, Selection selection, bool prefix, Milliseconds period,
           Done<Loaded> done) override;
  Result<std::uint64_t> renew(const Caller& caller, LeaseId lease, Milliseconds period) override;
  Result<LeaseGrant> attach(const Caller& caller, LeaseId lease,
                            const hostmem::LeaseSecret& secret) override;
  Status release(const Caller& caller, LeaseId lease) override;

  Result<Reserved> reserve(const Caller& caller, NamespaceId ns, std::uint16_t group,
                           std::uint32_t slots, std::uint64_t bytes) override;
  void commit(const Caller& caller, NewBlocks blocks, std::vector<std::uint64_t> slots,
              Done<Committed> done) override;
  std::uint32_t abort(const Caller& caller, const std::vector<std::uint64_t>& slots) override;
  void put(const Caller& caller, NewBlocks blocks, std::shared_ptr<const ByteVector> values,
           std::uint64_t values_offset, Done<Committed> done) override;
  void flush(const Caller& caller, std::optional<Sequence> sequence, Done<Sequence> done) override;

  void pin(const Caller& caller, Selection selection, bool pinned, Done<Changed> done) override;
  void set_ttl(const Caller& caller, Selection selection, std::uint64_t ttl_ms,
               Done<Changed> done) override;
  void remove(const Caller& caller, Selection selection, bool descendants,
              Done<Removal> done) override;
  void clear(const Caller& caller, ClearRequest request, Done<Removal> done) override;
  void evict(const Caller& caller, std::uint64_t bytes, Done<Removal> done) override;
  void bump_weight_epoch(const Caller& caller, std::string fingerprint,
                         Done<std::uint64_t> done) override;

  void explain(const Caller& caller, Selection selection, Done<Explanation> done) override;
  void list_namespaces(const Caller& caller, Done<std::vector<NamespaceDetails>> done) override;
  void list_blocks(const Caller& caller, NamespaceId ns, std::optional<BlockKey> after,
                   std::size_t limit, Done<Page> done) override;
  void inspect(const Caller& caller, BlockKey key, Done<BlockDetails> done) override;
  void verify(const Caller& caller, NamespaceId ns, std::optional<BlockKey> after,
              std::size_t limit, Done<Verified> done) override;
  void audit(Done<storage::StoreAudit> done) override {
    core_.on_worker([this] { return core_.store->audit(); }, std::move(done));
  }
  EngineStats stats(const Caller& caller) const override;
  storage::StoreTroubles disk_troubles() const override { return core_.store->troubles(); }

  std::optional<hostmem::ChunkInfo> find_chunk(ChunkId chunk) const override;
  void chunk_sent(ChunkId chunk, ConnectionId to) override;
  void chunk_unmapped(ChunkId chunk, ConnectionId by) override;

 private:
  /// Finds a selection's blocks; on an error `fail` runs instead.
  template <typename T>
  void find(const Caller& caller, const Selection& selection, bool prefix, Done<T> fail,
            std::function<void(Found)> then);
  /// Applies a change of the index to what is found of a selection.
  void change(const Caller& caller, const Selection& selection, bool must_be_on_disk,
              Done<Changed> done, std::function<void(const BlockPtr&)> in_memory,
              std::function<Status(std::span<const BlockKey>)> on_disk);
  /// Brings blocks into host memory, in order; null blocks are answered not_found.
  void bring(const std::vector<BlockPtr>& blocks, LeaseGrant grant,
             const std::vector<std::uint32_t>& expected_tokens, Done<Loaded> done);
  void find_elsewhere(const Caller& caller, const Selection& selection, Explanation explanation,
                      Done<Explanation> done);
  /// The blocks of a prefix were wanted, in order.
  void used(std::span<const BlockPtr> prefix);
  void count_lookup(std::size_t wanted, std::span<const BlockPtr> found);
  void drained();
  void records_dropped(std::span<const BlockKey> keys);
  BlockDetails describe(const BlockKey& key, const storage::IndexEntry* entry) const;

  Core core_;
  Namespaces namespaces_{core_};
  BlockDirectory directory_{core_};
  Finder finder_{core_, namespaces_, directory_};
  LeaseDesk leases_{core_, directory_};
  Loader loader_{core_, namespaces_, directory_};
  ParameterFitter fitter_{core_, namespaces_};
  Flusher flusher_{core_, namespaces_, directory_, finder_, fitter_};
  DiskGate gate_{core_, directory_, flusher_};
  PutPath puts_{core_, namespaces_, directory_, finder_, flusher_, gate_};
  Remover remover_{core_, directory_, finder_};
  bool draining_ = false;
  MonotonicTime drain_deadline_{};
  std::function<void()> on_drained_;
};

template <typename T>
void EngineImpl::find(const Caller& caller, const Selection& selection, bool prefix, Done<T> fail,
                      std::function<void(Found)> then) {
  auto keys = finder_.keys_of(caller, selection);
  if (!keys) {
    fail(keys.error());
    return;
  }
  finder_.find(std::move(*keys), prefix,
               [fail = std::move(fail), then = std::move(then)](Result<Found> found) {
                 if (found) {
                   then(std::move(*found));
                 } else {
                   fail(found.error());
                 }
               });
}

}  // namespace kvstrata::daemon
