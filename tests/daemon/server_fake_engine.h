// A FakeEngine answers what a test tells it to, so that the session layer can be driven into every
// corner: engines that never answer, answer late, or out of order. Control thread only.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "daemon/engine/engine.h"

namespace kvstrata::daemon::test {

class FakeEngine final : public Engine {
 public:
  template <typename T>
  struct Pending {
    Caller caller;
    Done<T> done;
  };

  // ---- what was asked and waits for the test
  std::deque<Pending<Present>> exists_pending;
  std::deque<Pending<LeaseGrant>> lookup_pending;
  std::deque<Pending<Loaded>> load_pending;  ///< LOAD and GET
  std::deque<Pending<Committed>> put_pending;
  std::deque<Pending<Removal>> removal_pending;

  // ---- what happened
  std::vector<ConnectionId> closed;
  std::vector<LeaseId> released;
  std::map<LeaseId, int> renewed;
  std::vector<std::pair<ChunkId, ConnectionId>> sent_chunks, unmapped_chunks;
  std::vector<std::vector<std::uint64_t>> aborted;
  std::vector<std::shared_ptr<const ByteVector>> put_values;
  std::vector<std::uint64_t> evicted;
  std::function<void()> drained;
  std::function<void(const Event&)> listener;

  // ---- how it answers
  bool answer_at_once = true;      ///< EXISTS; else it waits in exists_pending
  bool leases_have_ended = false;  ///< renew() fails
  Loaded loaded;                   ///< of LOAD and GET, if answer_loads_at_once
  bool answer_loads_at_once = true;
  std::vector<hostmem::ChunkInfo> chunks;
  Reserved reserved;
  std::vector<std::pair<ConnectionId, std::string>> to_disconnect;

  void on_event(std::function<void(const Event&)> to) override { listener = std::move(to); }
  void connection_closed(ConnectionId connection) override { closed.push_back(connection); }
  std::vector<std::pair<ConnectionId, std::string>> tick() override {
    return std::exchange(to_disconnect, {});
  }
  void drain(Milliseconds, std::function<void()> done) override { drained = std::move(done); }

  void register_namespace(const Caller&, NamespaceSpec spec, Done<Registered> done) override {
    done(Registered{NamespaceId{7}, namespace_hash(spec), 3, {4096}});
  }
  void lookup(const Caller& caller, Selection, Milliseconds, Done<LeaseGrant> done) override {
    lookup_pending.push_back({caller, std::move(done)});
  }
  void group_lookup(const Caller&, std::vector<Selection>, Milliseconds,
                    Done<std::vector<LeaseGrant>> done) override {
    done(Error(ErrorKind::unsupported, "not in this test"));
  }
  void exists(const Caller& caller, Selection selection, Done<Present> done) override {
    if (!answer_at_once) {
      exists_pending.push_back({caller, std::move(done)});
      return;
    }
    const auto blocks = static_cast<std::uint32_t>(selection.hashes.size());
    done(Present{blocks, std::vector<std::uint8_t>(blocks, 1)});
  }
  void load(const Caller& caller, LeaseId, std::uint32_t, std::uint32_t, std::vector<std::uint32_t>,
            Done<Loaded> done) override {
    give_loaded(caller, std::move(done));
  }
  void get(const Caller& caller, Selection, bool, Milliseconds, Done<Loaded> done) override {
    give_loaded(caller, std::move(done));
  }
  Result<std::uint64_t> renew(const Caller&, LeaseId lease, Milliseconds) override {
    if (leases_have_ended) return Error(ErrorKind::lease_expired, "ended");
    ++renewed[lease];
    return std::uint64_t{1000};
  }
  Result<LeaseGrant> attach(const Caller&, LeaseId, const hostmem::LeaseSecret&) override {
    return Error(ErrorKind::not_found, "no such lease");
  }
  Status release(const Caller&, LeaseId lease) override {
    released.push_back(lease);
    return {};
  }
  Result<Reserved> reserve(const Caller&, NamespaceId, std::uint16_t, std::uint32_t,
                           std::uint64_t) override {
    return reserved;
  }
  void commit(const Caller& caller, NewBlocks, std::vector<std::uint64_t>,
              Done<Committed> done) override {
    put_pending.push_back({caller, std::move(done)});
  }
  std::uint32_t abort(const Caller&, const std::vector<std::uint64_t>& slots) override {
    aborted.push_back(slots);
    return static_cast<std::uint32_t>(slots.size());
  }
  void put(const Caller& caller, NewBlocks, std::shared_ptr<const ByteVector> values, std::uint64_t,
           Done<Committed> done) override {
    put_values.push_back(std::move(values));
    put_pending.push_back({caller, std::move(done)});
  }
  void flush(const Caller&, std::optional<Sequence>, Done<Sequence> done) override {
    done(Sequence{9});
  }
  void pin(const Caller&, Selection, bool, Done<Changed> done) override { done(Changed{1, 2}); }
  void set_ttl(const Caller&, Selection, std::uint64_t, Done<Changed> done) override {
    done(Changed{1, 0});
  }
  void remove(const Caller& caller, Selection, bool, Done<Removal> done) override {
    removal_pending.push_back({caller, std::move(done)});
  }
  void clear(const Caller&, ClearRequest, Done<Removal> done) override {
    done(Removal{5, 6, 7, 8});
  }
  void evict(const Caller&, std::uint64_t bytes, Done<Removal> done) override {
    evicted.push_back(bytes);
    done(Removal{evicted.size() > 3 ? 0u : 1u, 100, 0, 0});
  }
  void bump_weight_epoch(const Caller&, std::string, Done<std::uint64_t> done) override {
    done(std::uint64_t{4});
  }
  void explain(const Caller&, Selection, Done<Explanation> done) override {
    done(Explanation{1, 2, "block 1 is not stored", "salt", "differs"});
  }
  void list_namespaces(const Caller&, Done<std::vector<NamespaceDetails>> done) override {
    done(std::vector<NamespaceDetails>{});
  }
  void list_blocks(const Caller&, NamespaceId ns, std::optional<BlockKey> after, std::size_t limit,
                   Done<Page> done) override {
    Page page;
    BlockDetails block;
    block.key = after.value_or(BlockKey{ns, {}, 2});
    block.raw_bytes = limit;
    page.blocks.push_back(block);
    page.next = BlockKey{ns, Hash256{{std::byte{9}}}, 3};
    done(std::move(page));
  }
  void inspect(const Caller&, BlockKey key, Done<BlockDetails> done) override {
    BlockDetails block;
    block.key = key;
    block.tokens = {1, 2, 3};
    done(std::move(block));
  }
  void verify(const Caller&, NamespaceId, std::optional<BlockKey>, std::size_t,
              Done<Verified> done) override {
    done(Verified{10, 0, 4096, {}, std::nullopt});
  }
  void audit(Done<storage::StoreAudit> done) override { done(storage::StoreAudit{}); }
  storage::StoreTroubles disk_troubles() const override { return {}; }
  EngineStats stats(const Caller&) const override {
    EngineStats stats;
    stats.counters["lookups"] = 5;
    stats.notes["store_id"] = "abc";
    return stats;
  }
  std::optional<hostmem::ChunkInfo> find_chunk(ChunkId chunk) const override {
    for (const hostmem::ChunkInfo& info : chunks) {
      if (info.id == chunk) return info;
    }
    return std::nullopt;
  }
  void chunk_sent(ChunkId chunk, ConnectionId to) override { sent_chunks.emplace_back(chunk, to); }
  void chunk_unmapped(ChunkId chunk, ConnectionId by) override {
    unmapped_chunks.emplace_back(chunk, by);
  }

 private:
  void give_loaded(const Caller& caller, Done<Loaded> done) {
    if (answer_loads_at_once) {
      done(loaded);
    } else {
      load_pending.push_back({caller, std::move(done)});
    }
  }
};

}  // namespace kvstrata::daemon::test
