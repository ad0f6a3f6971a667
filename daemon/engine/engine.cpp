#include "daemon/engine/engine.h"

#include <algorithm>

#include "daemon/engine/engine_impl.h"

namespace kvstrata::daemon {

namespace {

constexpr Milliseconds unmap_grace{5000};

constexpr std::uint8_t status_of(ErrorKind kind) {
  return static_cast<std::uint8_t>(kind);
}

// A BRING in progress: blocks that are not ready yet count in `open`.
struct Bringing {
  Loaded loaded;
  std::vector<BlockPtr> blocks;
  std::vector<std::uint32_t> expected_tokens;
  std::size_t open = 0;
  Done<Loaded> done;
};

bool has_tokens(const Block& block, std::span<const std::uint32_t> tokens) {
  return std::ranges::equal(ByteView(block.identity), bytes_of(tokens));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(EngineOptions options, Executor& control) {
  auto engine = std::make_unique<EngineImpl>(std::move(options), control);
  KV_TRY(engine->open());
  return std::unique_ptr<Engine>(std::move(engine));
}

EngineImpl::EngineImpl(EngineOptions options, Executor& control)
    : core_(std::move(options), control) {}

Status EngineImpl::open() {
  KV_ASSIGN(core_.arena, hostmem::HostArena::create(core_.options.arena));
  KV_ASSIGN(core_.store, storage::Store::open(core_.options.store));
  core_.workers = make_worker_pool(core_.options.worker_threads, "kv-worker");
  core_.encoders = make_worker_pool(core_.options.encode_threads, "kv-encode");
  core_.fitters = make_worker_pool(1, "kv-fit", ThreadPriority::lowest);
  KV_TRY(gate_.open());
  KV_TRY(namespaces_.load());
  core_.store->on_dropped([this](std::span<const BlockKey> keys) {
    core_.to_control([this, dropped = std::vector<BlockKey>(keys.begin(), keys.end())] {
      records_dropped(dropped);
    });
  });
  if (core_.options.prefault_bytes != 0) core_.arena->prefault(core_.options.prefault_bytes);
  return {};
}

// Nothing that is still under way may find a part of the engine gone: first the posts are cut off,
// then workers finish what they do, then the store ends its threads. What those still post to the
// workers never runs.
EngineImpl::~EngineImpl() {
  core_.disconnect();
  fitter_.cancel();
  if (core_.fitters) core_.fitters->join();
  if (core_.encoders) core_.encoders->join();
  if (core_.workers) core_.workers->join();
  core_.store.reset();
}

void EngineImpl::on_event(std::function<void(const Event&)> listener) {
  core_.listener = std::move(listener);
}

void EngineImpl::connection_closed(ConnectionId connection) {
  leases_.connection_closed(connection);
  puts_.connection_closed(connection);
  flusher_.connection_closed(connection);
}

std::vector<std::pair<ConnectionId, std::string>> EngineImpl::tick() {
  leases_.expire();
  puts_.expire();
  flusher_.tick();
  gate_.tick();
  if (draining_ && core_.clock.now() >= drain_deadline_) drained();
  std::vector<std::pair<ConnectionId, std::string>> overdue;
  for (const ConnectionId connection : core_.arena->overdue(core_.clock.now() - unmap_grace)) {
    overdue.emplace_back(connection, "did not unmap retired memory within 5 s");
  }
  return overdue;
}

void EngineImpl::drain(Milliseconds limit, std::function<void()> done) {
  draining_ = true;
  drain_deadline_ = core_.clock.now() + limit;
  on_drained_ = std::move(done);
  // What was declined is not written: a shutdown is no reason to think it will be wanted again.
  flusher_.flush(ConnectionId{}, std::nullopt, [this](const Result<Sequence>&) { drained(); });
}

void EngineImpl::drained() {
  if (on_drained_) std::exchange(on_drained_, nullptr)();
}

void EngineImpl::register_namespace(const Caller& caller, NamespaceSpec spec,
                                    Done<Registered> done) {
  if (const Status valid = validate(spec.model); !valid) {
    done(valid.error());
    return;
  }
  const bool too_long =
      spec.salt.size() > 256 || spec.adapter.size() > 256 || spec.extra_keys.size() > 16 ||
      std::ranges::any_of(spec.extra_keys, [](const std::string& key) { return key.size() > 256; });
  if (too_long) {
    done(Error(ErrorKind::too_large,
               "salt, adapter and each of at most 16 extra keys have at most 256 bytes"));
    return;
  }
  spec.tenant = caller.tenant_name;
  spec.weight_epoch = core_.store->weight_epoch(spec.tenant, spec.model.fingerprint);
  const auto ns = namespaces_.add(spec, caller.tenant);
  if (!ns) {
    done(ns.error());
    return;
  }
  Registered registered;
  registered.ns = (*ns)->record.id;
  registered.hash = (*ns)->record.hash;
  registered.weight_epoch = spec.weight_epoch;
  for (const LayerGroupState& group : (*ns)->groups) {
    registered.block_bytes.push_back(group.block_bytes);
  }
  done(std::move(registered));
}

void EngineImpl::count_lookup(std::size_t wanted, std::span<const BlockPtr> found) {
  ++core_.counters.lookups;
  core_.counters.lookup_blocks += wanted;
  std::size_t hits = 0;
  for (const BlockPtr& block : found) {
    if (block == nullptr) continue;
    ++hits;
    ++(block->host == Block::HostCopy::ready ? core_.counters.hit_blocks_host
                                             : core_.counters.hit_blocks_disk);
  }
  core_.counters.miss_blocks += wanted - hits;
}

void EngineImpl::used(std::span<const BlockPtr> prefix) {
  directory_.touch(prefix);
  gate_.used_again(prefix);
}

void EngineImpl::lookup(const Caller& caller, Selection selection, Milliseconds period,
                        Done<LeaseGrant> done) {
  const bool prefix = selection.by != SelectBy::key;
  auto keys = finder_.keys_of(caller, selection);
  if (!keys) {
    done(keys.error());
    return;
  }
  const std::size_t wanted = keys->size();
  finder_.find(std::move(*keys), prefix,
               [this, caller, period, wanted, done = std::move(done)](Result<Found> found) {
                 if (!found) {
                   done(found.error());
                   return;
                 }
                 const auto end = std::ranges::find(*found, nullptr);
                 found->erase(end, found->end());
                 count_lookup(wanted, *found);
                 used(*found);
                 done(leases_.grant(caller, std::move(*found), period));
               });
}

void EngineImpl::group_lookup(const Caller& caller, std::vector<Selection> shards,
                              Milliseconds period, Done<std::vector<LeaseGrant>> done) {
  if (shards.empty()) {
    done(Error(ErrorKind::invalid_argument, "'shards' must name at least one shard"));
    return;
  }
  struct Group {
    std::vector<Found> found;
    std::size_t open = 0;
    std::optional<Error> failed;
  };
  // All or none: what is wrong with one shard is found before any is looked up.
  std::vector<std::vector<BlockKey>> keys;
  for (const Selection& shard : shards) {
    auto named = finder_.keys_of(caller, shard);
    if (!named) {
      done(named.error());
      return;
    }
    keys.push_back(std::move(*named));
  }
  auto group = std::make_shared<Group>();
  group->found.resize(shards.size());
  group->open = shards.size();
  const auto finish = [this, caller, period, group, done = std::move(done)] {
    if (--group->open > 0) return;
    if (group->failed) {
      done(*group->failed);
      return;
    }
    for (Found& found : group->found) Finder::drop_evicted(found, true);
    std::size_t blocks = group->found.front().size();
    for (const Found& found : group->found) blocks = std::min(blocks, found.size());
    std::vector<LeaseGrant> grants;
    for (Found& found : group->found) {
      found.resize(blocks);
      used(found);
      auto grant = leases_.grant(caller, std::move(found), period);
      if (!grant) {
        for (const LeaseGrant& given : grants) (void)leases_.release(caller, given.lease);
        done(grant.error());
        return;
      }
      grants.push_back(std::move(*grant));
    }
    done(std::move(grants));
  };
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::size_t wanted = keys[i].size();
    finder_.find(std::move(keys[i]), true, [this, group, finish, wanted, i](Result<Found> found) {
      if (found) {
        count_lookup(wanted, *found);
        group->found[i] = std::move(*found);
      } else {
        group->failed = found.error();
      }
      finish();
    });
  }
}

void EngineImpl::exists(const Caller& caller, Selection selection, Done<Present> done) {
  find<Present>(caller, selection, false, done, [done](const Found& found) {
    Present present;
    for (const BlockPtr& block : found) present.each.push_back(block != nullptr ? 1 : 0);
    const auto end = std::ranges::find(present.each, std::uint8_t{0});
    present.blocks = static_cast<std::uint32_t>(end - present.each.begin());
    done(std::move(present));
  });
}

void EngineImpl::load(const Caller& caller, LeaseId lease, std::uint32_t first, std::uint32_t count,
                      std::vector<std::uint32_t> expected_tokens, Done<Loaded> done) {
  auto leased = leases_.blocks(caller, lease);
  if (!leased) {
    done(leased.error());
    return;
  }
  if (first > leased->size() || count > leased->size() - first) {
    done(Error(ErrorKind::invalid_argument, "blocks " + std::to_string(first) + ".." +
                                                std::to_string(std::uint64_t{first} + count) +
                                                " are not under the lease, which holds " +
                                                std::to_string(leased->size())));
    return;
  }
  const std::vector<BlockPtr> wanted(leased->begin() + first, leased->begin() + first + count);
  if (!expected_tokens.empty()) {
    const Namespace* ns = wanted.empty() ? nullptr : namespaces_.get(wanted.front()->key.ns);
    if (ns == nullptr || ns->is_opaque() ||
        expected_tokens.size() != std::size_t{count} * ns->model().block_tokens) {
      done(Error(ErrorKind::invalid_argument, "the expected tokens are not those of whole blocks"));
      return;
    }
  }
  LeaseGrant grant;
  grant.lease = lease;
  bring(wanted, grant, expected_tokens, std::move(done));
}

void EngineImpl::get(const Caller& caller, Selection selection, bool prefix, Milliseconds period,
                     Done<Loaded> done) {
  auto keys = finder_.keys_of(caller, selection);
  if (!keys) {
    done(keys.error());
    return;
  }
  const std::size_t wanted = keys->size();
  finder_.find(std::move(*keys), prefix,
               [this, caller, period, wanted, done = std::move(done)](Result<Found> found) {
                 if (!found) {
                   done(found.error());
                   return;
                 }
                 count_lookup(wanted, *found);
                 Found present;
                 std::ranges::copy_if(*found, std::back_inserter(present),
                                      [](const BlockPtr& block) { return block != nullptr; });
                 used(present);
                 const auto grant = leases_.grant(caller, std::move(present), period);
                 if (!grant) {
                   done(grant.error());
                   return;
                 }
                 bring(*found, *grant, {}, done);
               });
}

void EngineImpl::bring(const std::vector<BlockPtr>& blocks, LeaseGrant grant,
                       const std::vector<std::uint32_t>& expected_tokens, Done<Loaded> done) {
  auto job = std::make_shared<Bringing>();
  job->loaded.grant = std::move(grant);
  job->loaded.blocks.resize(blocks.size());
  job->blocks = blocks;
  job->expected_tokens = expected_tokens;
  job->done = std::move(done);
  job->open = blocks.size() + 1;  // one for this function, so that it ends last
  const auto finish = [job] {
    if (--job->open == 0) job->done(std::move(job->loaded));
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    LoadedBlock& loaded = job->loaded.blocks[i];
    if (blocks[i] == nullptr) {
      loaded.status = status_of(ErrorKind::not_found);
      --job->open;
      continue;
    }
    const bool from_host = blocks[i]->host == Block::HostCopy::ready;
    loader_.load(blocks[i], [this, job, i, from_host, finish](const Status& status) {
      const Block& block = *job->blocks[i];
      LoadedBlock& result = job->loaded.blocks[i];
      const std::size_t tokens = job->expected_tokens.size() / job->blocks.size();
      const auto expected = std::span(job->expected_tokens).subspan(i * tokens, tokens);
      if (!status) {
        result.status = status_of(status.error().kind());
      } else if (!expected.empty() && !has_tokens(block, expected)) {
        result.status = status_of(ErrorKind::conflict);
      } else {
        result.ref = {block.slot.chunk.value, block.slot.offset, block.raw_bytes,
                      block.slot.generation, block.xxh3};
        result.data = block.slot.data;
        if (from_host) {
          ++core_.counters.load_blocks_host;
          core_.counters.load_bytes_host += block.raw_bytes;
        }
      }
      finish();
    });
  }
  finish();
}

Result<std::uint64_t> EngineImpl::renew(const Caller& caller, LeaseId lease, Milliseconds period) {
  return leases_.renew(caller, lease, period);
}

Result<LeaseGrant> EngineImpl::attach(const Caller& caller, LeaseId lease,
                                      const hostmem::LeaseSecret& secret) {
  return leases_.attach(caller, lease, secret);
}

Status EngineImpl::release(const Caller& caller, LeaseId lease) {
  return leases_.release(caller, lease);
}

Result<Reserved> EngineImpl::reserve(const Caller& caller, NamespaceId ns, std::uint16_t group,
                                     std::uint32_t slots, std::uint64_t bytes) {
  if (draining_) return Error(ErrorKind::unavailable, "the daemon is shutting down");
  return puts_.reserve(caller, ns, group, slots, bytes);
}

void EngineImpl::commit(const Caller& caller, NewBlocks blocks, std::vector<std::uint64_t> slots,
                        Done<Committed> done) {
  puts_.commit(caller, std::move(blocks), std::move(slots), std::move(done));
}

std::uint32_t EngineImpl::abort(const Caller& caller, const std::vector<std::uint64_t>& slots) {
  return puts_.abort(caller, slots);
}

void EngineImpl::put(const Caller& caller, NewBlocks blocks,
                     std::shared_ptr<const ByteVector> values, std::uint64_t values_offset,
                     Done<Committed> done) {
  if (draining_) {
    done(Error(ErrorKind::unavailable, "the daemon is shutting down"));
    return;
  }
  puts_.put(caller, std::move(blocks), std::move(values), values_offset, std::move(done));
}

void EngineImpl::flush(const Caller& caller, std::optional<Sequence> sequence,
                       Done<Sequence> done) {
  gate_.flush(caller, sequence, std::move(done));
}

std::optional<hostmem::ChunkInfo> EngineImpl::find_chunk(ChunkId chunk) const {
  return core_.arena->find_chunk(chunk);
}

void EngineImpl::chunk_sent(ChunkId chunk, ConnectionId to) {
  core_.arena->chunk_sent(chunk, to);
}

void EngineImpl::chunk_unmapped(ChunkId chunk, ConnectionId by) {
  core_.arena->chunk_unmapped(chunk, by);
}

}  // namespace kvstrata::daemon
