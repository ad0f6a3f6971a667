#include "daemon/engine/put_path.h"

#include <algorithm>

#include "daemon/engine/copy_hash.h"

namespace kvstrata::daemon {

/// One block of a batch on its way in.
struct PutPath::Incoming {
  BlockKey key;
  std::optional<Hash256> parent;
  ByteVector identity;
  ByteView source;
};

/// A COMMIT or PUT until it is answered.
struct PutPath::Batch {
  Caller caller;
  Namespace* ns = nullptr;
  NewBlocks asked;
  std::vector<Incoming> blocks;
  std::vector<Reservation> reservations;     ///< COMMIT: where sources lie
  std::shared_ptr<const ByteVector> values;  ///< PUT: where sources lie
  Committed result;
  std::size_t open = 0;  ///< blocks without a status yet
  Done<Committed> done;
};

PutPath::PutPath(Core& core, Namespaces& namespaces, BlockDirectory& directory, Finder& finder,
                 Flusher& flusher, DiskGate& gate)
    : core_(core),
      namespaces_(namespaces),
      directory_(directory),
      finder_(finder),
      flusher_(flusher),
      gate_(gate) {}

// Works out every block's key and identity; sources come later.
Status PutPath::describe(Batch& batch, NewBlocks asked) const {
  KV_ASSIGN(batch.ns, namespaces_.find(batch.caller, asked.ns));
  const Namespace& ns = *batch.ns;
  if (!ns.is_opaque() && asked.group >= ns.groups.size()) {
    return Error(ErrorKind::invalid_argument,
                 "group " + std::to_string(asked.group) + " is not declared by the model");
  }
  if (ns.is_opaque() != (asked.by == SelectBy::key)) {
    return Error(ErrorKind::invalid_argument, "blocks of this namespace are named by " +
                                                  std::string(ns.is_opaque() ? "key" : "tokens"));
  }
  if (ns.is_opaque()) {
    for (const std::string& key : asked.keys) {
      if (key.empty() || key.size() > 256) {
        return Error(ErrorKind::invalid_argument, "an opaque key has 1..256 bytes");
      }
      const ByteView bytes = as_bytes(key);
      batch.blocks.push_back({{asked.ns, opaque_hash(ns.record.hash, bytes), asked.group},
                              {},
                              ByteVector(bytes.begin(), bytes.end()),
                              {}});
    }
  } else {
    const std::size_t block_tokens = ns.model().block_tokens;
    KV_TRY(validate_tokens(asked.tokens, ns.model().vocab_size));
    if (asked.tokens.size() % block_tokens != 0) {
      return Error(ErrorKind::invalid_argument,
                   std::to_string(asked.tokens.size()) + " tokens are not whole blocks of " +
                       std::to_string(block_tokens) + "; a partial last block is not stored");
    }
    std::optional<Hash256> parent = asked.parent;
    for (std::size_t i = 0; i < asked.tokens.size() / block_tokens; ++i) {
      const auto tokens =
          std::span<const std::uint32_t>(asked.tokens).subspan(i * block_tokens, block_tokens);
      const auto extras = asked.extras.find(static_cast<std::uint32_t>(i));
      const Hash256 digest =
          block_hash(parent.value_or(ns.record.hash), tokens,
                     extras == asked.extras.end() ? std::span<const std::string>{}
                                                  : std::span<const std::string>(extras->second));
      const ByteView identity = bytes_of(tokens);
      batch.blocks.push_back({{asked.ns, digest, asked.group},
                              parent,
                              ByteVector(identity.begin(), identity.end()),
                              {}});
      parent = digest;
    }
  }
  batch.asked = std::move(asked);
  return check_lengths(batch);
}

Status PutPath::check_lengths(const Batch& batch) const {
  const auto& lengths = batch.asked.lengths;
  if (batch.ns->is_opaque()) {
    if (lengths.size() != batch.blocks.size()) {
      return Error(ErrorKind::invalid_argument, "'lengths' must name the bytes of each value");
    }
    for (const std::uint64_t bytes : lengths) {
      if (bytes > block_bytes_max) {
        return Error(ErrorKind::too_large, "a value has at most 1 GiB");
      }
    }
    return {};
  }
  const std::uint64_t expected = batch.ns->groups[batch.asked.group].block_bytes;
  if (!lengths.empty() && (lengths.size() != batch.blocks.size() ||
                           std::ranges::any_of(lengths, [&](auto n) { return n != expected; }))) {
    return Error(ErrorKind::invalid_argument, "a block of this model and group has exactly " +
                                                  std::to_string(expected) + " bytes");
  }
  return {};
}

Result<Reserved> PutPath::reserve(const Caller& caller, NamespaceId id, std::uint16_t group,
                                  std::uint32_t slots, std::uint64_t bytes) {
  KV_ASSIGN(Namespace * ns, namespaces_.find(caller, id));
  if (!ns->is_opaque()) {
    if (group >= ns->groups.size()) {
      return Error(ErrorKind::invalid_argument,
                   "group " + std::to_string(group) + " is not declared by the model");
    }
    bytes = ns->groups[group].block_bytes;
  } else if (bytes == 0 || bytes > block_bytes_max) {
    return Error(ErrorKind::invalid_argument, "'bytes' must be in 1.." +
                                                  std::to_string(block_bytes_max) +
                                                  " for a namespace of opaque keys");
  }
  if (slots == 0) return Error(ErrorKind::invalid_argument, "'slots' must be at least 1");
  const std::uint64_t staging_max = core_.options.staging_bytes_max != 0
                                        ? core_.options.staging_bytes_max
                                        : core_.options.arena.budget_bytes / 4;
  const std::uint64_t wanted = bytes * slots;
  if (wanted > staging_max) {
    return Error(ErrorKind::too_large, std::to_string(wanted) +
                                           " bytes exceed the staging limit of " +
                                           std::to_string(staging_max) + "; reserve fewer at once");
  }
  if (reserved_bytes_ + wanted > staging_max || !flusher_.has_room_for(wanted)) {
    return Error(ErrorKind::busy, "blocks come faster than they reach the disk; try again");
  }
  Reserved reserved;
  const MonotonicTime deadline = core_.clock.now() + core_.options.reservation_period;
  std::vector<std::uint64_t> taken;
  for (std::uint32_t i = 0; i < slots; ++i) {
    auto slot = core_.arena->allocate_staging(caller.tenant, caller.connection, bytes);
    if (!slot && slot.error().kind() == ErrorKind::out_of_memory &&
        directory_.retire_for_staging(bytes)) {
      slot = core_.arena->allocate_staging(caller.tenant, caller.connection, bytes);
    }
    if (!slot) {
      abort(caller, taken);
      const bool is_full = slot.error().kind() == ErrorKind::out_of_memory;
      if (!is_full) return slot.error();
      return Error(ErrorKind::busy,
                   "no room for staging now; try again: " + slot.error().message());
    }
    const std::uint64_t number = next_slot_++;
    reservations_[number] = {*slot, caller.connection, bytes, deadline};
    reserved_bytes_ += bytes;
    taken.push_back(number);
    reserved.slots.push_back({number, slot->chunk.value, slot->offset, bytes});
  }
  reserved.expires_in_ms = static_cast<std::uint64_t>(core_.options.reservation_period.count());
  return reserved;
}

void PutPath::commit(const Caller& caller, NewBlocks asked, std::vector<std::uint64_t> slots,
                     Done<Committed> done) {
  auto batch = std::make_shared<Batch>();
  batch->caller = caller;
  batch->done = std::move(done);
  Status status;
  for (const std::uint64_t number : slots) {
    const auto at = reservations_.find(number);
    if (at == reservations_.end() || at->second.owner != caller.connection) {
      status = Error(ErrorKind::not_found,
                     "staging slot " + std::to_string(number) + " is not reserved by this client");
      continue;
    }
    batch->reservations.push_back(at->second);
    reservations_.erase(at);
  }
  if (status) status = describe(*batch, std::move(asked));
  if (status && batch->reservations.size() != batch->blocks.size()) {
    status = Error(ErrorKind::invalid_argument,
                   std::to_string(batch->reservations.size()) + " slots for " +
                       std::to_string(batch->blocks.size()) + " blocks");
  }
  for (std::size_t i = 0; status && i < batch->blocks.size(); ++i) {
    const Reservation& reservation = batch->reservations[i];
    const std::uint64_t bytes = batch->ns->is_opaque()
                                    ? batch->asked.lengths[i]
                                    : batch->ns->groups[batch->asked.group].block_bytes;
    if (bytes > reservation.slot.bytes) {
      status = Error(ErrorKind::invalid_argument,
                     "block " + std::to_string(i) + " is longer than its staging slot");
    }
    batch->blocks[i].source = ByteView(reservation.slot.data, bytes);
  }
  if (!status) {
    for (const Reservation& reservation : batch->reservations) give_back(reservation);
    batch->done(status.error());
    return;
  }
  start(batch);
}

void PutPath::put(const Caller& caller, NewBlocks asked, std::shared_ptr<const ByteVector> values,
                  std::uint64_t values_offset, Done<Committed> done) {
  auto batch = std::make_shared<Batch>();
  batch->caller = caller;
  batch->done = std::move(done);
  batch->values = std::move(values);
  Status status = describe(*batch, std::move(asked));
  std::uint64_t at = values_offset;
  for (std::size_t i = 0; status && i < batch->blocks.size(); ++i) {
    const std::uint64_t bytes = batch->ns->is_opaque()
                                    ? batch->asked.lengths[i]
                                    : batch->ns->groups[batch->asked.group].block_bytes;
    if (bytes > batch->values->size() - at) break;
    batch->blocks[i].source = ByteView(*batch->values).subspan(at, bytes);
    at += bytes;
  }
  if (status && at != batch->values->size()) {
    status = Error(ErrorKind::invalid_argument,
                   "the payload's values do not have the lengths of these blocks");
  }
  if (!status) {
    batch->done(status.error());
    return;
  }
  start(batch);
}

void PutPath::start(const std::shared_ptr<Batch>& batch) {
  flusher_.connection_writes(batch->caller.connection);
  std::uint64_t bytes = 0;
  std::vector<BlockKey> keys;
  for (const Incoming& block : batch->blocks) {
    keys.push_back(block.key);
    bytes += block.source.size();
  }
  batch->result.status.resize(keys.size());
  for (const BlockKey& key : keys) batch->result.hashes.push_back(key.digest);
  batch->open = keys.size();
  if (keys.empty() || !flusher_.has_room_for(bytes)) {
    for (const Reservation& reservation : batch->reservations) give_back(reservation);
    if (keys.empty()) {
      batch->done(std::move(batch->result));
    } else {
      ++core_.counters.put_refused;
      batch->done(Error(ErrorKind::busy, "blocks come faster than they reach the disk; try again"));
    }
    return;
  }
  ++copying_[batch->caller.connection];
  finder_.read_index(std::move(keys), [this, batch](const Result<Finder::Entries>& entries) {
    // An index that can't be read now must not stop puts: they are then checked by the host.
    for (std::size_t i = 0; i < batch->blocks.size(); ++i) {
      place_one(batch, i, entries ? (*entries)[i] : std::nullopt);
    }
  });
}

void PutPath::place_one(const std::shared_ptr<Batch>& batch, std::size_t index,
                        const std::optional<storage::IndexEntry>& stored) {
  const Incoming& incoming = batch->blocks[index];
  BlockPtr block = directory_.find(incoming.key);
  const std::uint64_t now_ms = core_.clock.unix_ms();
  if (block == nullptr && stored) {
    block = directory_.remember(incoming.key, batch->caller.tenant, *stored);
  }
  if (block != nullptr && block->is_visible(now_ms)) {
    compare(batch, index, block, stored.has_value());
    return;
  }
  if (block != nullptr && block->host == Block::HostCopy::filling) {
    // Another client is putting it: the first that completes stays.
    block->on_filled.push_back([this, batch, index](const Status&) {
      core_.to_control([this, batch, index] { place_one(batch, index, std::nullopt); });
    });
    return;
  }
  if (block != nullptr) forget_expired(block);
  fill(batch, index);
}

// The key is there: with the same bytes, or with others.
void PutPath::compare(const std::shared_ptr<Batch>& batch, std::size_t index, const BlockPtr& block,
                      bool on_disk) {
  // Were it evicted meanwhile, there would be nothing left to make durable.
  const bool held = !block->entry;
  if (held) directory_.hold(block);
  core_.on_worker([source = batch->blocks[index].source] { return hash_payload(source); },
                  [this, batch, index, block, on_disk, held](std::uint64_t xxh3) {
                    const bool same = xxh3 == block->xxh3;
                    ++(same ? core_.counters.put_exists : core_.counters.put_conflicts);
                    if (same && (!on_disk || !block->entry)) write_again(*batch, block);
                    if (held) directory_.unhold(block);
                    settle(batch, index, same ? ErrorKind::exists : ErrorKind::conflict);
                  });
}

// Reclaim has taken the record and left the copy in host memory, or there never was one. Who puts
// the block anew must be able to rely on a FLUSH.
void PutPath::write_again(Batch& batch, const BlockPtr& block) {
  if (block->dead || block->host != Block::HostCopy::ready) return;
  if (block->unadmitted) {
    gate_.used_again({&block, 1});
    if (batch.asked.durable) gate_.admit(block);
  } else if (!block->dirty) {
    gate_.add(block, true);
  }
  if (block->dirty) Flusher::rely_on(*block, batch.caller.connection);
  batch.result.sequence = std::max(batch.result.sequence, block->sequence);
}

// The new block is written once the index has let go of the old one; until its own expiry has come
// to the index too, that would otherwise be taken for a conflict.
void PutPath::forget_expired(const BlockPtr& block) {
  IndexDoubts& doubts = finder_.doubts();
  if (block->dirty) {
    block->unwanted = true;
    doubts.add_tombstone(block->key);
  }
  directory_.forget(block);
  doubts.add_tombstone(block->key);
  core_.on_worker(
      [this, key = block->key] { return core_.store->erase(std::span(&key, 1), false, true); },
      [this, key = block->key](const Result<storage::RemovalCounts>&) {
        finder_.doubts().remove_tombstone(key);
        finder_.doubts().settled();
      });
}

/// Known where the block before it is in memory, and its position is.
std::optional<std::uint32_t> PutPath::first_position_of(const Batch& batch,
                                                        const Incoming& incoming) const {
  if (batch.ns->is_opaque()) return std::nullopt;
  if (!incoming.parent) return 0;
  const BlockPtr before = directory_.find({incoming.key.ns, *incoming.parent, incoming.key.group});
  if (before == nullptr || !before->first_position) return std::nullopt;
  return *before->first_position + batch.ns->model().block_tokens;
}

void PutPath::fill(const std::shared_ptr<Batch>& batch, std::size_t index) {
  Incoming& incoming = batch->blocks[index];
  const BlockPtr block = directory_.add(incoming.key, batch->caller.tenant);
  block->parent = incoming.parent;
  block->first_position = first_position_of(*batch, incoming);
  block->raw_bytes = incoming.source.size();
  block->writer = batch->caller.connection;
  block->pinned = batch->asked.pinned;
  block->created_unix_ms = core_.clock.unix_ms();
  if (batch->asked.ttl_ms) block->expires_unix_ms = block->created_unix_ms + *batch->asked.ttl_ms;
  if (const Status allocated = directory_.allocate(block); !allocated) {
    directory_.forget(block);
    ++core_.counters.put_refused;
    settle(batch, index, allocated.error().kind());
    return;
  }
  block->identity = std::move(incoming.identity);
  core_.on_worker(
      [source = incoming.source, to = MutableBytes(block->slot.data, block->raw_bytes)] {
        return copy_and_hash(source, to);
      },
      [this, batch, index, block](std::uint64_t xxh3) {
        block->xxh3 = xxh3;
        directory_.publish(block);
        if (!block->dead) {
          gate_.add(block, batch->asked.durable || batch->asked.pinned);
          batch->result.sequence = std::max(batch->result.sequence, block->sequence);
        }
        ++core_.counters.put_blocks;
        core_.counters.put_bytes += block->raw_bytes;
        announce(*block);
        settle(batch, index, std::nullopt);
      });
}

void PutPath::announce(const Block& block) const {
  Event event;
  event.kind = Event::Kind::stored;
  event.tenant = block.tenant;
  event.ns = block.key.ns;
  event.group = block.key.group;
  event.tier = Tier::host;
  event.hashes = {block.key.digest};
  core_.emit(event);
}

void PutPath::settle(const std::shared_ptr<Batch>& batch, std::size_t index,
                     std::optional<ErrorKind> status) {
  batch->result.status[index] = status ? static_cast<std::uint8_t>(*status) : std::uint8_t{0};
  if (--batch->open > 0) return;
  for (const Reservation& reservation : batch->reservations) give_back(reservation);
  copy_ended(batch->caller.connection);
  batch->values.reset();
  if (!batch->asked.durable) {
    batch->done(std::move(batch->result));
    return;
  }
  // Blocks that existed may still be on their way to the disk too, so wait for all that are.
  flusher_.flush(batch->caller.connection, std::nullopt, [batch](const Result<Sequence>& durable) {
    if (durable) {
      batch->done(std::move(batch->result));
    } else {
      batch->done(durable.error());
    }
  });
}

std::uint32_t PutPath::abort(const Caller& caller, const std::vector<std::uint64_t>& slots) {
  std::uint32_t aborted = 0;
  for (const std::uint64_t number : slots) {
    const auto at = reservations_.find(number);
    if (at == reservations_.end() || at->second.owner != caller.connection) continue;
    give_back(at->second);
    reservations_.erase(at);
    ++aborted;
  }
  return aborted;
}

void PutPath::connection_closed(ConnectionId connection) {
  std::erase_if(reservations_, [&](const auto& entry) {
    if (entry.second.owner != connection) return false;
    give_back(entry.second);
    return true;
  });
  // A worker may still be reading the connection's staging memory.
  if (copying_.contains(connection)) {
    closed_while_copying_.insert(connection);
  } else {
    core_.arena->connection_closed(connection);
  }
}

void PutPath::copy_ended(ConnectionId connection) {
  const auto at = copying_.find(connection);
  if (--at->second > 0) return;
  copying_.erase(at);
  if (closed_while_copying_.erase(connection) > 0) core_.arena->connection_closed(connection);
}

void PutPath::expire() {
  const MonotonicTime now = core_.clock.now();
  std::erase_if(reservations_, [&](const auto& entry) {
    if (entry.second.deadline > now) return false;
    give_back(entry.second);
    ++core_.counters.expired_reservations;
    return true;
  });
}

void PutPath::give_back(const Reservation& reservation) {
  core_.arena->free_staging(reservation.slot);
  reserved_bytes_ -= reservation.bytes;
}

}  // namespace kvstrata::daemon
