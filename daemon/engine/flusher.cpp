#include "daemon/engine/flusher.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/block_position.h"
#include "daemon/engine/frame_writer.h"

namespace kvstrata::daemon {

namespace {

// What is being encoded or written is held twice.
std::uint64_t bytes_in_flight_max(const EngineOptions& options) {
  return std::clamp(options.arena.budget_bytes / 8, 64_MiB, 256_MiB);
}

constexpr std::uint64_t blocks_in_flight_max = 512;  // below the store's own bound

std::uint64_t unflushed_max(const EngineOptions& options) {
  return options.unflushed_bytes_max != 0 ? options.unflushed_bytes_max
                                          : options.arena.budget_bytes / 4;
}

}  // namespace

Flusher::Flusher(Core& core, Namespaces& namespaces, BlockDirectory& directory, Finder& finder,
                 ParameterFitter& fitter)
    : core_(core),
      namespaces_(namespaces),
      directory_(directory),
      finder_(finder),
      fitter_(fitter) {
  finder_.doubts().on_settled([this] { pump(); });
}

bool Flusher::has_room_for(std::uint64_t bytes) const {
  return dirty_bytes_ == 0 || dirty_bytes_ + bytes <= unflushed_max(core_.options);
}

bool Flusher::keeps_up(std::uint64_t more_bytes) const {
  return dirty_bytes_ + more_bytes <= unflushed_max(core_.options) / 2;
}

// All are queued before any is started: starting one looks at all that wait.
void Flusher::add(std::span<const BlockPtr> blocks) {
  for (const BlockPtr& block : blocks) {
    block->dirty = true;
    block->write_order = ++last_write_order_;
    dirty_.insert(block->sequence.value);
    dirty_bytes_ += block->raw_bytes;
    directory_.hold(block);
    queue_.push_back(block);
  }
  pump();
}

void Flusher::pump() {
  std::size_t passed_over = 0;
  while (passed_over < queue_.size() && bytes_in_flight_ < bytes_in_flight_max(core_.options) &&
         blocks_in_flight_ < blocks_in_flight_max) {
    const BlockPtr block = std::move(queue_.front());
    queue_.pop_front();
    if (!start(block)) {
      queue_.push_back(block);
      ++passed_over;
    }
  }
}

// False: the block has to wait for its namespace's tables, or for an older write of its key.
bool Flusher::start(const BlockPtr& block) {
  if (block->dead) {
    give_up(block);
    return true;
  }
  if (!finder_.doubts().may_write(block->key)) return false;
  LayerGroupState& group = namespaces_.get(block->key.ns)->group(block->key.group);
  if (group.fitting) return false;
  const bool wants_tables = core_.options.codec != "raw" && block->raw_bytes != 0;
  if (wants_tables && !group.tables->current(codec::CodecId::static_tables).parameters) {
    fit_tables(block, group);
    return false;
  }
  encode(block, group);
  return true;
}

// A namespace's first block is fitted on itself.
void Flusher::fit_tables(const BlockPtr& sample, LayerGroupState& group) {
  group.fitting = true;
  directory_.hold(sample);
  const BlockKey key = sample->key;
  const codec::BlockShape shape = namespaces_.get(key.ns)->shape(key.group, sample->raw_bytes);
  const ByteView payload(sample->slot.data, sample->raw_bytes);
  core_.encoders->post([this, sample, key, shape, payload] {
    auto fitted = [&]() -> Result<CodecTables::Stored> {
      KV_ASSIGN(auto tables, codec::StaticTables::fit(shape, std::span(&payload, 1)));
      KV_ASSIGN(const TableId id,
                core_.store->add_table(key.ns, pack_parameters(key.group, *tables)));
      return CodecTables::Stored{id, tables};
    }();
    core_.to_control([this, sample, key, result = std::move(fitted)] {
      LayerGroupState& state = namespaces_.get(key.ns)->group(key.group);
      state.fitting = false;
      if (result) state.tables->add(result->id, result->parameters);
      // Without tables (a full disk, say) the block goes raw; the next one tries to fit again.
      if (!result) {
        std::erase(queue_, sample);
        encode(sample, state);
      }
      directory_.unhold(sample);
      pump();
    });
  });
}

void Flusher::encode(const BlockPtr& block, const LayerGroupState& group) {
  bytes_in_flight_ += block->raw_bytes;
  ++blocks_in_flight_;
  FrameWriter writer;
  const bool lags = !keeps_up();
  if (!lags && core_.options.codec != "raw") {
    writer.tables = group.tables->current(codec::CodecId::static_tables);
    // Far slower than static: only while little waits.
    const bool has_time = dirty_bytes_ <= unflushed_max(core_.options) / 8;
    if (has_time && core_.options.codec == "linear") {
      writer.linear = group.tables->current(codec::CodecId::linear);
    }
  }
  core_.counters.encoded_raw_for_lag += lags ? 1 : 0;
  auto encoded = std::make_shared<Encoded>();
  storage::AppendRequest& request = encoded->request;
  request.key = block->key;
  request.parent = block->parent;
  request.identity = block->identity;
  request.raw_bytes = block->raw_bytes;
  request.payload_xxh3 = block->xxh3;
  request.expires_unix_ms = block->expires_unix_ms;
  request.pinned = block->pinned;
  encoded->first_position = block->first_position;
  encoded->with_tables = writer.tables.parameters != nullptr;
  encoded->with_linear = writer.linear.parameters != nullptr;
  const Namespace& ns = *namespaces_.get(block->key.ns);
  writer.shape = ns.shape(block->key.group, block->raw_bytes);
  const ByteView payload(block->slot.data, block->raw_bytes);
  ++encoding_blocks_;
  core_.encoders->post([this, block, writer, payload, encoded,
                        block_tokens = ns.model().block_tokens] {
    if (writer.linear.parameters && !encoded->first_position) {
      encoded->first_position =
          find_first_position(*core_.store, block->key, encoded->request.parent, block_tokens);
    }
    encoded->status = writer.write(payload, encoded->first_position.value_or(0), encoded->request);
    core_.to_control([this, block, encoded] { append(block, encoded); });
  });
}

void Flusher::append(const BlockPtr& block, std::shared_ptr<Encoded> encoded) {
  --encoding_blocks_;
  if (encoded->first_position) block->first_position = encoded->first_position;
  if (!encoded->status) {
    finish(block, encoded->status.error());
    return;
  }
  if (block->dead) {
    left_flight(*block);
    give_up(block);
    pump();
    return;
  }
  core_.counters.encoded_raw_bytes += block->raw_bytes;
  core_.counters.encoded_frame_bytes += encoded->request.frame_bytes;
  ++core_.counters.encoded_blocks;
  const bool is_linear =
      encoded->request.codec == static_cast<std::uint8_t>(codec::CodecId::linear);
  core_.counters.encoded_linear_blocks += is_linear ? 1 : 0;
  if (encoded->with_tables) {
    fitter_.block_coded(block->key, block->raw_bytes, encoded->request.frame_bytes,
                        encoded->with_linear);
  }
  const TableId table = encoded->request.table;
  const Status queued = core_.store->append(
      std::move(encoded->request), [this, block](Result<storage::IndexEntry> entry) {
        core_.to_control([this, block, entry = std::move(entry)] { finish(block, entry); });
      });
  if (queued) return;
  if (table == TableId{} || queued.error().kind() != ErrorKind::invalid_argument) {
    finish(block, queued.error());
    return;
  }
  // The store gave these parameters up for others while no block needed them.
  LayerGroupState& group = namespaces_.get(block->key.ns)->group(block->key.group);
  group.tables->forget(table);
  left_flight(*block);
  encode(block, group);
}

void Flusher::finish(const BlockPtr& block, Result<storage::IndexEntry> entry) {
  left_flight(*block);
  if (entry) {
    ++core_.counters.durable_blocks;
    if (block->unwanted) {
      erase_unwanted(block);
      return;
    }
    block->entry = *entry;
    fitter_.block_stored(block->key, block->raw_bytes);
  } else if (block->unwanted) {
    finder_.doubts().remove_tombstone(block->key);  // nobody misses what was removed
  } else if (entry.error().kind() == ErrorKind::cancelled) {
    directory_.forget(block);  // what it continues was removed, and it with that
  } else {
    ++core_.counters.durable_failures;
    tell_failure(*block, entry.error());
  }
  clean(block);
  pump();
}

void Flusher::rely_on(Block& block, ConnectionId connection) {
  const bool is_known = block.writer == connection ||
                        std::ranges::find(block.relying, connection) != block.relying.end();
  if (!is_known) block.relying.push_back(connection);
}

void Flusher::tell_failure(const Block& block, const Error& why) {
  const auto tell = [&](ConnectionId connection) {
    const auto told = failures_.find(connection);
    if (told == failures_.end()) return;  // it has closed
    ++told->second.blocks;
    told->second.why = why;
  };
  tell(block.writer);
  for (const ConnectionId connection : block.relying) tell(connection);
}

// Removed while it was being written: the record goes too. Until it has gone, what the index says
// of the key is not believed, and no FLUSH is answered: a crash would bring the block back.
void Flusher::erase_unwanted(const BlockPtr& block) {
  core_.on_worker(
      [this, key = block->key] { return core_.store->erase(std::span(&key, 1), false, true); },
      [this, block](const Result<storage::RemovalCounts>&) {
        finder_.doubts().remove_tombstone(block->key);
        clean(block);
        pump();
      });
}

// The block was removed before anything of it reached the store.
void Flusher::give_up(const BlockPtr& block) {
  if (block->unwanted) finder_.doubts().remove_tombstone(block->key);
  clean(block);
}

void Flusher::left_flight(const Block& block) {
  bytes_in_flight_ -= block.raw_bytes;
  --blocks_in_flight_;
}

void Flusher::clean(const BlockPtr& block) {
  block->dirty = false;
  block->relying.clear();
  dirty_.erase(block->sequence.value);
  dirty_bytes_ -= block->raw_bytes;
  directory_.unhold(block);
  for (Waiter& waiter : waiters_) {
    const bool awaited =
        block->sequence.value <= waiter.sequence && block->write_order <= waiter.write_order;
    waiter.open -= awaited ? 1 : 0;
  }
  answer_waiters();
}

void Flusher::flush(ConnectionId connection, std::optional<Sequence> sequence,
                    Done<Sequence> done) {
  const std::uint64_t last = last_sequence().value;
  const std::uint64_t wanted = sequence ? std::min(sequence->value, last) : last;
  const auto newer = std::distance(dirty_.upper_bound(wanted), dirty_.end());
  const std::uint64_t open = dirty_.size() - static_cast<std::uint64_t>(newer);
  waiters_.push_back({wanted, last_write_order_, open, connection, std::move(done)});
  answer_waiters();
}

void Flusher::answer_waiters() {
  const std::uint64_t durable_up_to = dirty_.empty() ? last_sequence().value : *dirty_.begin() - 1;
  std::vector<Waiter> ready;
  std::erase_if(waiters_, [&](Waiter& waiter) {
    if (waiter.open > 0) return false;
    ready.push_back(std::move(waiter));
    return true;
  });
  for (const Waiter& waiter : ready) {
    const auto known = failures_.find(waiter.connection);
    const Failure failure =
        known == failures_.end() ? Failure() : std::exchange(known->second, Failure());
    if (failure.blocks == 0) {
      waiter.done(Sequence{std::max(waiter.sequence, durable_up_to)});
    } else {
      waiter.done(failure.why->with_context(std::to_string(failure.blocks) +
                                            " block(s) could not be made durable"));
    }
  }
}

}  // namespace kvstrata::daemon
