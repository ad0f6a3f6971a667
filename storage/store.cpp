#include "storage/store.h"

#include <algorithm>
#include <future>
#include <mutex>

#include "storage/append_queue.h"
#include "storage/audit.h"
#include "storage/reader.h"
#include "storage/removal.h"
#include "storage/store_open.h"
#include "storage/writer.h"

namespace kvstrata::storage {

namespace {

constexpr std::size_t tenant_bytes_max = 64;
constexpr std::size_t extra_bytes_max = 256;
constexpr std::size_t extra_keys_max = 16;

Status check_spec(const NamespaceSpec& spec) {
  const auto too_long = [](std::string_view field, std::size_t limit) {
    return Error(ErrorKind::invalid_argument,
                 std::string(field) + " has at most " + std::to_string(limit) + " bytes");
  };
  if (spec.tenant.empty() || spec.tenant.size() > tenant_bytes_max) {
    return Error(ErrorKind::invalid_argument, "tenant has 1 to 64 bytes");
  }
  if (spec.salt.size() > extra_bytes_max) return too_long("salt", extra_bytes_max);
  if (spec.adapter.size() > extra_bytes_max) return too_long("adapter", extra_bytes_max);
  if (spec.extra_keys.size() > extra_keys_max) {
    return Error(ErrorKind::invalid_argument, "a namespace has at most 16 extra keys");
  }
  for (const std::string& key : spec.extra_keys) {
    if (key.size() > extra_bytes_max) return too_long("an extra key", extra_bytes_max);
  }
  return validate(spec.model);
}

class StoreImpl final : public Store {
 public:
  StoreImpl(OpenedState opened, std::unique_ptr<Device> writer_device,
            std::unique_ptr<Device> reader_device, std::string device_fallback)
      : state_(std::move(opened.state)),
        empty_because_(std::move(opened.empty_because)),
        device_fallback_(std::move(device_fallback)),
        queue_(state_->options.append_queue_max, *state_->options.clock),
        reader_(*state_, std::move(reader_device)),
        writer_(*state_, queue_, std::move(writer_device),
                AsideFiles::scan(state_->directory.path()),
                [this](SegmentId segment) { reader_.forget_file(segment); }) {
    state_->wake_writer = [this] { queue_.wake(); };
    writer_.resume(opened.open_segments);
    reader_.start();
    writer_.start();
  }

  ~StoreImpl() override {
    reader_.stop();
    writer_.stop();
  }

  std::string_view opened_empty_because() const override { return empty_because_; }
  std::string id_hex() const override { return state_->directory.id_hex(); }

  Result<NamespaceId> register_namespace(const NamespaceSpec& spec) override;
  std::vector<NamespaceRecord> namespaces() const override;
  std::uint64_t weight_epoch(std::string_view tenant, std::string_view fingerprint) const override {
    return state_->catalog.epoch(tenant, fingerprint);
  }
  Result<std::uint64_t> bump_weight_epoch(std::string_view tenant,
                                          std::string_view fingerprint) override;
  Result<TableId> add_table(NamespaceId ns, ByteView table) override;
  Result<ByteVector> table(NamespaceId ns, TableId id) const override;
  std::vector<TableId> tables(NamespaceId ns) const override { return state_->catalog.tables(ns); }

  Status append(AppendRequest request, AppendDone done) override;
  Status flush() override {
    queue_.wait_flushed();
    return {};
  }
  Status find(std::span<const BlockKey> keys,
              std::span<std::optional<IndexEntry>> entries) const override;
  void read(const BlockKey& key, const IndexEntry& entry, ReadDone done) override {
    reader_.read(RecordKind::block, key, entry, std::move(done));
  }
  void touch(std::span<const BlockKey> keys) override { state_->interest.touch(keys); }
  void hold(std::span<const BlockKey> keys) override { state_->interest.hold(keys); }
  void unhold(std::span<const BlockKey> keys) override { state_->interest.unhold(keys); }
  Status set_pinned(std::span<const BlockKey> keys, bool pinned) override {
    return alter(keys, [&](IndexEntry& entry) { entry.pinned = pinned; });
  }
  Status set_expiry(std::span<const BlockKey> keys, std::uint64_t expires_unix_ms) override {
    return alter(keys, [&](IndexEntry& entry) { entry.expires_unix_ms = expires_unix_ms; });
  }
  Result<RemovalCounts> erase(std::span<const BlockKey> keys, bool with_descendants,
                              bool also_pinned) override {
    return erase_blocks(*state_, queue_, keys, with_descendants, also_pinned);
  }
  Result<RemovalCounts> erase_namespace(NamespaceId ns, bool also_pinned) override {
    return storage::erase_namespace(*state_, queue_, ns, also_pinned);
  }
  Result<std::vector<std::pair<BlockKey, IndexEntry>>> list(NamespaceId ns,
                                                            std::optional<BlockKey> after,
                                                            std::size_t limit) const override {
    return state_->index.list(ns, after, limit);
  }
  void on_dropped(std::function<void(std::span<const BlockKey>)> callback) override {
    state_->dropped.set_callback(std::move(callback));
  }
  StoreStats stats() const override;
  StoreTroubles troubles() const override;
  Result<StoreAudit> audit() override { return audit_store(*state_); }

 private:
  std::uint64_t segments_openable(std::uint64_t index_bytes) const;
  Status alter(std::span<const BlockKey> keys, const std::function<void(IndexEntry&)>& change);
  Result<IndexEntry> append_and_wait(std::shared_ptr<Append> append);

  std::unique_ptr<StoreState> state_;
  const std::string empty_because_;
  const std::string device_fallback_;
  std::mutex registration_;  // one new namespace or table at a time
  AppendQueue queue_;
  mutable Reader reader_;
  Writer writer_;
};

Result<IndexEntry> StoreImpl::append_and_wait(std::shared_ptr<Append> append) {
  append->created_unix_ms = state_->now_unix_ms();
  KV_TRY(prepare_append(*append, state_->sizes.record_bytes_max, state_->sizes.frame_bytes_max));
  const auto ended = std::make_shared<std::promise<Result<IndexEntry>>>();
  append->done = [ended](Result<IndexEntry> result) { ended->set_value(std::move(result)); };
  std::future<Result<IndexEntry>> future = ended->get_future();
  KV_TRY(queue_.push(std::move(append), true));
  return future.get();
}

Result<NamespaceId> StoreImpl::register_namespace(const NamespaceSpec& spec) {
  KV_TRY(check_spec(spec));
  const std::lock_guard lock(registration_);
  if (const auto known = state_->catalog.find_namespace(namespace_hash(spec))) return *known;
  const NamespaceId ns = state_->catalog.next_namespace();
  auto append = std::make_shared<Append>();
  append->kind = RecordKind::name_space;
  append->request.key = record_name(ns);
  append->request.identity = namespace_bytes(spec);
  KV_TRY(append_and_wait(std::move(append)));
  return ns;
}

std::vector<NamespaceRecord> StoreImpl::namespaces() const {
  std::vector<NamespaceRecord> records;
  for (const auto& [ns, value] : state_->catalog.namespaces()) {
    records.push_back(
        {ns, namespace_hash(value.spec), value.spec.tenant, value.spec, value.created_unix_ms});
  }
  return records;
}

Result<std::uint64_t> StoreImpl::bump_weight_epoch(std::string_view tenant,
                                                   std::string_view fingerprint) {
  KV_ASSIGN(IndexChange change, IndexChange::begin(*state_));
  const std::uint64_t epoch = state_->catalog.epoch(tenant, fingerprint) + 1;
  change.put_epoch(tenant, fingerprint, epoch);
  KV_TRY(change.commit());
  return epoch;
}

Result<TableId> StoreImpl::add_table(NamespaceId ns, ByteView table) {
  const std::lock_guard lock(registration_);
  if (!state_->catalog.find_namespace(ns)) {
    return Error(ErrorKind::not_found, "the namespace is not registered");
  }
  if (state_->catalog.tables(ns).size() >= Catalog::tables_max) {
    const std::optional<TableName> unused = state_->catalog.unused_table(ns);
    if (!unused) {
      return Error(ErrorKind::too_large, "a namespace has at most 16 tables that blocks need");
    }
    KV_ASSIGN(IndexChange change, IndexChange::begin(*state_));
    change.remove_table(*unused);
    KV_TRY(change.commit());
  }
  const TableId id = state_->catalog.next_table();
  auto append = std::make_shared<Append>();
  append->kind = RecordKind::table;
  append->request.key = record_name(TableName{ns, id});
  KV_ASSIGN(append->request.frame, FrameBuffer::take(table.size()));
  append->request.frame_bytes = table.size();
  append->request.raw_bytes = table.size();
  if (!table.empty()) std::memcpy(append->request.frame.data(), table.data(), table.size());
  append->request.payload_xxh3 = checksum(table);
  KV_TRY(append_and_wait(std::move(append)));
  return id;
}

Result<ByteVector> StoreImpl::table(NamespaceId ns, TableId id) const {
  const TableName name{ns, id};
  const std::optional<TableValue> value = state_->catalog.find_table(name);
  if (!value) return Error(ErrorKind::not_found, "the namespace has no such table");
  std::promise<Result<ReadRecord>> ended;
  reader_.read(RecordKind::table, record_name(name), value->entry,
               [&](Result<ReadRecord> record) { ended.set_value(std::move(record)); });
  KV_ASSIGN(const ReadRecord record, ended.get_future().get());
  return ByteVector(record.frame.begin(), record.frame.end());
}

Status StoreImpl::append(AppendRequest request, AppendDone done) {
  if (const auto refusal = state_->health.refusal()) return *refusal;
  if (!state_->catalog.find_namespace(request.key.ns)) {
    return Error(ErrorKind::invalid_argument, "the namespace is not registered");
  }
  const TableName table{request.key.ns, request.table};
  if (table.table.value != 0 && !state_->catalog.begin_use(table)) {
    return Error(ErrorKind::invalid_argument, "the frame's table is not stored");
  }
  auto append = std::make_shared<Append>();
  append->request = std::move(request);
  append->created_unix_ms = state_->now_unix_ms();
  append->done = [this, table, done = std::move(done)](Result<IndexEntry> result) {
    if (table.table.value != 0) state_->catalog.end_use(table);
    if (done) done(std::move(result));
  };
  Status status =
      prepare_append(*append, state_->sizes.record_bytes_max, state_->sizes.frame_bytes_max);
  if (status) status = queue_.push(std::move(append));
  if (!status && table.table.value != 0) state_->catalog.end_use(table);
  return status;
}

Status StoreImpl::find(std::span<const BlockKey> keys,
                       std::span<std::optional<IndexEntry>> entries) const {
  KV_TRY(state_->index.find(keys, entries));
  const std::uint64_t now = state_->now_unix_ms();
  bool any_expired = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!entries[i] || !entries[i]->expired(now)) continue;
    entries[i].reset();
    state_->errands.add_expired(keys[i]);
    any_expired = true;
  }
  if (any_expired) state_->wake_writer();
  return {};
}

Status StoreImpl::alter(std::span<const BlockKey> keys,
                        const std::function<void(IndexEntry&)>& change_entry) {
  KV_ASSIGN(IndexChange change, IndexChange::begin(*state_));
  std::vector<std::optional<IndexEntry>> entries(keys.size());
  KV_TRY(state_->index.find(keys, entries));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!entries[i]) continue;
    change_entry(*entries[i]);
    change.alter_block(keys[i], *entries[i]);
  }
  return change.commit();
}

// As the writer's SegmentLog counts them, but for the moment a segment changes its state.
std::uint64_t StoreImpl::segments_openable(std::uint64_t index_bytes) const {
  const SizePlan& sizes = state_->sizes;
  const std::vector<SegmentTable::Row> rows = state_->segments.rows();
  std::uint64_t used =
      fixed_bytes + state_->counters.aside_bytes + std::max(index_bytes, sizes.index_reserve_bytes);
  std::uint64_t openable = 0;
  for (const auto& [segment, row] : rows) {
    used += row.bytes;
    openable += row.state == SegmentState::free && row.bytes == sizes.segment_bytes ? 1 : 0;
  }
  if (used < sizes.budget_bytes && !state_->counters.growth_refused) {
    openable += (sizes.budget_bytes - used) / sizes.segment_bytes;
  }
  return openable;
}

StoreStats StoreImpl::stats() const {
  const StoreCounters& counters = state_->counters;
  const SegmentTotals totals = state_->segments.totals();
  StoreStats stats;
  stats.blocks = totals.live_blocks;
  stats.live_bytes = totals.live_bytes;
  stats.segment_bytes = totals.bytes;
  stats.index_bytes = disk_bytes(state_->directory.index_path());
  stats.budget_bytes = state_->sizes.budget_bytes;
  stats.segments = totals.segments;
  stats.free_segments = totals.free;
  stats.segments_max = (state_->sizes.budget_bytes - state_->sizes.index_reserve_bytes) /
                       state_->sizes.segment_bytes;
  stats.segments_openable = segments_openable(stats.index_bytes);
  stats.condemned_segments = counters.condemned_segments;
  stats.aside_bytes = counters.aside_bytes;
  stats.appended_blocks = counters.appended_blocks;
  stats.appended_bytes = counters.appended_bytes;
  stats.reinserted_bytes = counters.reinserted_bytes;
  stats.reclaimed_segments = counters.reclaimed_segments;
  stats.dropped_blocks = counters.dropped_blocks;
  stats.expired_blocks = counters.expired_blocks;
  stats.reclaiming = counters.reclaiming;
  stats.index_stalls = state_->database->stalls();
  stats.group_commits = counters.group_commits;
  stats.read_blocks = counters.read_blocks;
  stats.read_bytes = counters.read_bytes;
  stats.corrupt_records = counters.corrupt_records;
  stats.read_errors = counters.read_errors;
  stats.write_errors = counters.write_errors;
  stats.appends_in_flight = queue_.count();
  stats.append_bytes_in_flight = queue_.bytes();
  stats.device = writer_.device_name();
  stats.device_fallback = device_fallback_;
  stats.writable = !state_->health.refusal();
  stats.degraded = state_->health.degraded();
  return stats;
}

StoreTroubles StoreImpl::troubles() const {
  const StoreCounters& counters = state_->counters;
  StoreTroubles troubles;
  troubles.degraded = state_->health.degraded();
  troubles.corrupt_records = counters.corrupt_records;
  troubles.read_errors = counters.read_errors;
  troubles.write_errors = counters.write_errors;
  troubles.condemned_segments = counters.condemned_segments;
  troubles.lost_segments = counters.lost_segments;
  return troubles;
}

}  // namespace

namespace {

Result<std::unique_ptr<Device>> open_segments(const StoreState& state, std::string& fallback) {
  const StoreOptions& options = state.options;
  if (options.open_segments) return options.open_segments();
  return open_device({state.directory.segments_path(), options.device, options.read_queue_depth},
                     &fallback);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(StoreOptions options) {
  KV_ASSIGN(OpenedState opened, open_state(std::move(options)));
  const StoreOptions& chosen = opened.state->options;
  std::string fallback;
  KV_ASSIGN(std::unique_ptr<Device> writer_device, open_segments(*opened.state, fallback));
  KV_ASSIGN(std::unique_ptr<Device> reader_device, writer_device->clone());
  if (chosen.wrap_device) {
    writer_device = chosen.wrap_device(std::move(writer_device));
    reader_device = chosen.wrap_device(std::move(reader_device));
  }
  KV_ASSIGN(const std::vector<std::string> names, writer_device->list());
  find_lost_segments(*opened.state, names);
  return std::unique_ptr<Store>(std::make_unique<StoreImpl>(
      std::move(opened), std::move(writer_device), std::move(reader_device), std::move(fallback)));
}

}  // namespace kvstrata::storage
