#include <algorithm>
#include <iterator>

#include "codec/codec.h"
#include "daemon/engine/engine_impl.h"
#include "daemon/engine/spec_difference.h"
#include "daemon/engine/verifier.h"

namespace kvstrata::daemon {

namespace {

// Tokens (u32 each) or an opaque key, as records keep them.
void show_identity(const Namespace& ns, ByteView identity, BlockDetails& details) {
  if (ns.is_opaque()) {
    details.opaque_key = std::string(as_text(identity));
    return;
  }
  details.tokens.resize(identity.size() / sizeof(std::uint32_t));
  std::memcpy(details.tokens.data(), identity.data(),
              details.tokens.size() * sizeof(std::uint32_t));
}

}  // namespace

void EngineImpl::records_dropped(std::span<const BlockKey> keys) {
  finder_.doubts().dropped(keys);
  for (const BlockKey& key : keys) {
    const BlockPtr block = directory_.find(key);
    if (block != nullptr && !block->dirty) directory_.lost_record(key);
  }
}

void EngineImpl::change(const Caller& caller, const Selection& selection, bool must_be_on_disk,
                        Done<Changed> done, std::function<void(const BlockPtr&)> in_memory,
                        std::function<Status(std::span<const BlockKey>)> on_disk) {
  find<Changed>(caller, selection, false, done, [=, this](const Found& found) {
    Changed changed;
    std::vector<BlockKey> keys;
    for (const BlockPtr& block : found) {
      if (block == nullptr) {
        ++changed.missing;
        continue;
      }
      ++changed.changed;
      in_memory(block);
      keys.push_back(block->key);
    }
    // What is not on disk yet is written with its new state; the index takes the change after that.
    // Nobody's flush: a failure is for the FLUSH of whoever put the block.
    flusher_.flush(ConnectionId{}, std::nullopt, [=, this](const Result<Sequence>&) {
      const auto unwritten = std::ranges::count_if(found, [](const BlockPtr& block) {
        return block != nullptr && !block->dead && !block->entry;
      });
      if (must_be_on_disk && unwritten > 0) {
        done(Error(ErrorKind::io, std::to_string(unwritten) +
                                      " block(s) could not be written to disk, where pins are "
                                      "kept; `kvstrata status` says why"));
        return;
      }
      core_.on_worker([on_disk, keys] { return on_disk(keys); },
                      [changed, done](const Status& status) {
                        if (status) {
                          done(changed);
                        } else {
                          done(status.error());
                        }
                      });
    });
  });
}

void EngineImpl::pin(const Caller& caller, Selection selection, bool pinned, Done<Changed> done) {
  change(
      caller, selection, pinned, std::move(done),
      [this, pinned](const BlockPtr& block) {
        block->pinned = pinned;
        if (pinned) gate_.admit(block);  // the host tier evicts pinned blocks
      },
      [this, pinned](std::span<const BlockKey> keys) {
        return core_.store->set_pinned(keys, pinned);
      });
}

void EngineImpl::set_ttl(const Caller& caller, Selection selection, std::uint64_t ttl_ms,
                         Done<Changed> done) {
  const std::uint64_t expires = ttl_ms == 0 ? 0 : core_.clock.unix_ms() + ttl_ms;
  change(
      caller, selection, false, std::move(done),
      [expires](const BlockPtr& block) { block->expires_unix_ms = expires; },
      [this, expires](std::span<const BlockKey> keys) {
        return core_.store->set_expiry(keys, expires);
      });
}

void EngineImpl::remove(const Caller& caller, Selection selection, bool descendants,
                        Done<Removal> done) {
  auto keys = finder_.keys_of(caller, selection);
  if (!keys) {
    done(keys.error());
    return;
  }
  remover_.remove(std::move(*keys), descendants, true, std::move(done));
}

void EngineImpl::clear(const Caller& caller, ClearRequest request, Done<Removal> done) {
  if (request.scope == ClearScope::prefix) {
    auto keys = finder_.keys_of(caller, request.prefix);
    if (!keys) {
      done(keys.error());
    } else if (keys->empty()) {
      done(Error(ErrorKind::invalid_argument, "the prefix has no full block"));
    } else {
      remover_.remove({keys->back()}, true, request.also_pinned, std::move(done));
    }
    return;
  }
  std::vector<Namespace*> namespaces = namespaces_.of_tenant(caller);
  std::erase_if(namespaces, [&](const Namespace* ns) {
    return (request.scope == ClearScope::model && ns->model().fingerprint != request.fingerprint) ||
           (request.scope == ClearScope::ns && ns->record.id != request.ns);
  });
  if (namespaces.empty() && request.scope != ClearScope::tenant) {
    done(Error(ErrorKind::not_found, "no such namespace or model; `kvstrata ls` shows them"));
  } else if (request.host_only) {
    done(remover_.clear_host(namespaces));
  } else {
    remover_.clear(std::move(namespaces), request.also_pinned, std::move(done));
  }
}

void EngineImpl::evict(const Caller& caller, std::uint64_t bytes, Done<Removal> done) {
  done(directory_.evict(caller.tenant, bytes));
}

void EngineImpl::bump_weight_epoch(const Caller& caller, std::string fingerprint,
                                   Done<std::uint64_t> done) {
  const auto epoch = core_.store->bump_weight_epoch(caller.tenant_name, fingerprint);
  if (!epoch) {
    done(epoch.error());
    return;
  }
  ++core_.counters.epoch_bumps;
  std::vector<Namespace*> outdated = namespaces_.of_tenant(caller);
  std::erase_if(outdated, [&](const Namespace* ns) {
    return ns->model().fingerprint != fingerprint || ns->record.spec.weight_epoch == *epoch;
  });
  Event event;
  event.kind = Event::Kind::epoch_changed;
  event.tenant = caller.tenant;
  event.fingerprint = std::move(fingerprint);
  event.weight_epoch = *epoch;
  core_.emit(event);
  // Their blocks can't be reached any more; the space is given back in the background.
  remover_.clear(std::move(outdated), true, [](const Result<Removal>&) {});
  done(*epoch);
}

void EngineImpl::explain(const Caller& caller, Selection selection, Done<Explanation> done) {
  auto keys = finder_.keys_of(caller, selection);
  if (!keys) {
    done(keys.error());
    return;
  }
  const std::size_t wanted = keys->size();
  find<Explanation>(caller, selection, selection.by != SelectBy::key, done,
                    [this, caller, selection, wanted, done](const Found& found) {
                      const auto first_miss = std::ranges::find(found, nullptr);
                      Explanation explanation;
                      explanation.wanted = static_cast<std::uint32_t>(wanted);
                      explanation.blocks = static_cast<std::uint32_t>(first_miss - found.begin());
                      if (explanation.blocks == wanted) {
                        explanation.reason =
                            wanted == 0 ? "the prefix has no full block" : "all blocks are stored";
                        done(std::move(explanation));
                        return;
                      }
                      explanation.reason =
                          "block " + std::to_string(explanation.blocks) + " is not stored";
                      find_elsewhere(caller, selection, std::move(explanation), done);
                    });
}

// Looks for the same first tokens under the tenant's other namespaces: if one has them, the field
// in which it differs is why this one misses.
void EngineImpl::find_elsewhere(const Caller& caller, const Selection& selection,
                                Explanation explanation, Done<Explanation> done) {
  const Namespace* mine = namespaces_.get(selection.ns);
  std::vector<const Namespace*> others;
  std::vector<BlockKey> keys;
  if (selection.by == SelectBy::tokens && explanation.blocks == 0) {
    for (const Namespace* other : namespaces_.of_tenant(caller)) {
      const std::size_t block_tokens = other->model().block_tokens;
      if (other == mine || other->is_opaque() || selection.tokens.size() < block_tokens) continue;
      const auto tokens = std::span(selection.tokens).first(block_tokens);
      keys.push_back({other->record.id, block_hash(other->record.hash, tokens), selection.group});
      others.push_back(other);
    }
  }
  finder_.find(keys, false, [=, explanation = std::move(explanation)](Result<Found> found) mutable {
    for (std::size_t i = 0; found && i < others.size(); ++i) {
      if ((*found)[i] == nullptr) continue;
      const auto difference = first_difference(mine->record.spec, others[i]->record.spec);
      explanation.field = difference.field;
      explanation.detail = "namespace " + std::to_string(others[i]->record.id.value) +
                           " has the first block; " + difference.text;
      break;
    }
    if (explanation.detail.empty()) {
      explanation.detail = explanation.blocks == 0
                               ? "no namespace of this tenant has the first block"
                               : "it was never stored, or was evicted, removed or expired";
    }
    done(std::move(explanation));
  });
}

void EngineImpl::list_namespaces(const Caller& caller, Done<std::vector<NamespaceDetails>> done) {
  std::vector<NamespaceDetails> all;
  for (const Namespace* ns : namespaces_.of_tenant(caller)) {
    const auto& spec = ns->record.spec;
    all.push_back({ns->record, core_.store->weight_epoch(spec.tenant, spec.model.fingerprint)});
  }
  done(std::move(all));
}

BlockDetails EngineImpl::describe(const BlockKey& key, const storage::IndexEntry* entry) const {
  BlockDetails details;
  details.key = key;
  if (entry != nullptr) {
    details.parent = entry->parent;
    details.raw_bytes = entry->raw_bytes;
    details.frame_bytes = entry->frame_bytes;
    details.codec = std::string(codec::to_string(static_cast<codec::CodecId>(entry->codec)));
    details.on_disk = true;
    details.pinned = entry->pinned;
    details.payload_xxh3 = entry->payload_xxh3;
    details.created_unix_ms = entry->created_unix_ms;
    details.expires_unix_ms = entry->expires_unix_ms;
    details.where = entry->where;
  }
  const BlockPtr block = directory_.find(key);
  if (block == nullptr) return details;
  details.in_host = block->host == Block::HostCopy::ready;
  details.leases = block->holds - (block->dirty ? 1 : 0);
  details.unadmitted = block->unadmitted;
  if (entry == nullptr) {
    details.parent = block->parent;
    details.raw_bytes = block->raw_bytes;
    details.pinned = block->pinned;
    details.payload_xxh3 = block->xxh3;
    details.created_unix_ms = block->created_unix_ms;
    details.expires_unix_ms = block->expires_unix_ms;
  }
  return details;
}

// A page holds blocks on disk in key order; blocks in memory alone come first, with the first page.
void EngineImpl::list_blocks(const Caller& caller, NamespaceId id, std::optional<BlockKey> after,
                             std::size_t limit, Done<Page> done) {
  const auto ns = namespaces_.find_any_epoch(caller, id);
  if (!ns) {
    done(ns.error());
    return;
  }
  Page page;
  if (!after) {
    directory_.for_each([&](const BlockPtr& block) {
      const bool fits = block->unadmitted && page.blocks.size() < limit;
      if (block->key.ns == id && (block->dirty || fits))
        page.blocks.push_back(describe(block->key, nullptr));
    });
  }
  using Entries = std::vector<std::pair<BlockKey, storage::IndexEntry>>;
  core_.on_worker(
      [this, id, after, limit] { return core_.store->list(id, after, limit); },
      [this, limit, page = std::move(page), done](const Result<Entries>& entries) mutable {
        if (!entries) {
          done(entries.error());
          return;
        }
        for (const auto& [key, entry] : *entries) {
          page.blocks.push_back(describe(key, &entry));
        }
        if (entries->size() == limit) page.next = entries->back().first;
        done(std::move(page));
      });
}

void EngineImpl::inspect(const Caller& caller, BlockKey key, Done<BlockDetails> done) {
  const auto ns = namespaces_.find_any_epoch(caller, key.ns);
  if (!ns) {
    done(ns.error());
    return;
  }
  finder_.find({key}, false, [this, key, done, ns = *ns](Result<Found> found) {
    if (!found || found->front() == nullptr) {
      done(found ? Error(ErrorKind::not_found, "no such block") : found.error());
      return;
    }
    const BlockPtr block = found->front();
    BlockDetails details = describe(key, block->entry ? &*block->entry : nullptr);
    if (!block->identity.empty() || !block->entry) {
      show_identity(*ns, block->identity, details);
      done(std::move(details));
      return;
    }
    core_.store->read(
        key, *block->entry, [this, ns, details, done](Result<storage::ReadRecord> record) {
          auto kept = std::make_shared<Result<storage::ReadRecord>>(std::move(record));
          core_.to_control([ns, details, done, kept]() mutable {
            if (!*kept) {
              done(kept->error());
              return;
            }
            show_identity(*ns, (*kept)->identity, details);
            done(std::move(details));
          });
        });
  });
}

void EngineImpl::verify(const Caller& caller, NamespaceId id, std::optional<BlockKey> after,
                        std::size_t limit, Done<Verified> done) {
  const auto ns = namespaces_.find_any_epoch(caller, id);
  if (!ns) {
    done(ns.error());
    return;
  }
  verify_page(core_, **ns, after, limit, std::move(done));
}

EngineStats EngineImpl::stats(const Caller&) const {
  EngineStats stats;
  const Counters& c = core_.counters;
  stats.counters = {{"lookups", c.lookups},
                    {"lookup_blocks", c.lookup_blocks},
                    {"hit_blocks_host", c.hit_blocks_host},
                    {"hit_blocks_disk", c.hit_blocks_disk},
                    {"miss_blocks", c.miss_blocks},
                    {"load_blocks_host", c.load_blocks_host},
                    {"load_blocks_disk", c.load_blocks_disk},
                    {"load_bytes_host", c.load_bytes_host},
                    {"load_bytes_disk", c.load_bytes_disk},
                    {"load_failures", c.load_failures},
                    {"put_blocks", c.put_blocks},
                    {"put_bytes", c.put_bytes},
                    {"put_exists", c.put_exists},
                    {"put_conflicts", c.put_conflicts},
                    {"put_refused", c.put_refused},
                    {"encoded_blocks", c.encoded_blocks},
                    {"encoded_raw_bytes", c.encoded_raw_bytes},
                    {"encoded_frame_bytes", c.encoded_frame_bytes},
                    {"encoded_raw_for_lag", c.encoded_raw_for_lag},
                    {"encoded_linear_blocks", c.encoded_linear_blocks},
                    {"fits", c.fits},
                    {"fits_adopted", c.fits_adopted},
                    {"gains_lost", c.gains_lost},
                    {"fits_failed", c.fits_failed},
                    {"durable_blocks", c.durable_blocks},
                    {"durable_failures", c.durable_failures},
                    {"admission_declined_blocks", c.admission_declined_blocks},
                    {"admission_later_blocks", c.admission_later_blocks},
                    {"evicted_blocks", c.evicted_blocks},
                    {"evicted_bytes", c.evicted_bytes},
                    {"evicted_unadmitted_blocks", c.evicted_unadmitted_blocks},
                    {"removed_blocks", c.removed_blocks},
                    {"corrupt_blocks", c.corrupt_blocks},
                    {"epoch_bumps", c.epoch_bumps},
                    {"expired_reservations", c.expired_reservations}};
  stats.gauges = {{"blocks_in_host", directory_.blocks_in_host()},
                  {"directory_entries", directory_.size()},
                  {"dirty_blocks", flusher_.dirty_blocks()},
                  {"dirty_bytes", flusher_.dirty_bytes()},
                  {"encoding_blocks", flusher_.encoding_blocks()},
                  {"fits_open", fitter_.open_fits()},
                  {"unadmitted_blocks", gate_.unadmitted_blocks()},
                  {"unadmitted_bytes", gate_.unadmitted_bytes()},
                  {"reservations", puts_.reservations()},
                  {"reserved_bytes", puts_.reserved_bytes()},
                  {"last_sequence", flusher_.last_sequence().value}};
  stats.admission = std::string(gate_.policy());
  stats.arena = core_.arena->stats();
  stats.leases = leases_.stats();
  stats.store = core_.store->stats();
  stats.notes = {{"store_opened_empty", std::string(core_.store->opened_empty_because())},
                 {"store_id", std::string(core_.store->id_hex())},
                 {"memory_lock", stats.arena.lock_note},
                 {"memory_refused", stats.arena.refusal_note},
                 {"device_fallback", stats.store.device_fallback},
                 {"degraded", stats.store.degraded}};
  std::erase_if(stats.notes, [](const auto& note) { return note.second.empty(); });
  return stats;
}

}  // namespace kvstrata::daemon
