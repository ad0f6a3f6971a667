#include "storage/index/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <mutex>
#include <shared_mutex>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"
#include "storage/index/name_syncing_file_system.h"

namespace kvstrata::storage {

namespace {

constexpr std::array<const char*, column_count> column_names = {
    "blocks", "children", "segments", "placements", "namespaces", "tables", "meta"};

rocksdb::Slice slice_of(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view view_of(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

// RocksDB gives what the file system said once as damage, once as a wrong option; but what the
// machine refuses now it may grant later, and an index must not be given up for it. A file that is
// not there is damage.
bool from_machine(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const bool io = text.find("IO error") != std::string::npos;
  const bool missing = text.find("No such file") != std::string::npos;
  // It tries again without direct I/O, which is never asked for here: the second try worked.
  const bool passed = text.find("Direct I/O is not supported") != std::string::npos;
  return (io && !missing) || passed;
}

Error error_of(const rocksdb::Status& status) {
  ErrorKind kind = ErrorKind::io;
  if (status.IsNoSpace()) {
    kind = ErrorKind::out_of_space;
  } else if (from_machine(status)) {
    kind = ErrorKind::io;
  } else if (status.IsCorruption() || status.IsInvalidArgument() || status.IsNotFound() ||
             status.IsPathNotFound()) {
    kind = ErrorKind::corrupt;
  }
  return {kind, "index: " + status.ToString()};
}

Status status_of(const rocksdb::Status& status) {
  if (status.ok()) return {};
  return error_of(status);
}

// An eighth of the descriptors: the daemon needs the rest for clients, chunks and segments.
int open_files_max() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return static_cast<int>(std::clamp<std::uint64_t>(known ? limit.rlim_cur / 8 : 1024, 20, 1024));
}

std::unique_ptr<rocksdb::Env> environment_of(const DatabaseOptions& options) {
  const rocksdb::Env* machine =
      options.environment != nullptr ? options.environment : rocksdb::Env::Default();
  return rocksdb::NewCompositeEnv(sync_names(machine->GetFileSystem()));
}

// RocksDB's own log goes nowhere: where a full disk refuses a line of it, the next line fails an
// assertion and ends the process. What went wrong is in the statuses, too.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

rocksdb::DBOptions database_options(const DatabaseOptions& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.paranoid_checks = true;
  db.max_open_files = open_files_max();
  db.max_background_jobs = 2;
  db.max_bgerror_resume_count = 0;  // recover() does it
  db.db_write_buffer_size = std::clamp<std::uint64_t>(options.budget_bytes / 8, 2_MiB, 16_MiB);
  db.max_total_wal_size = std::clamp<std::uint64_t>(options.budget_bytes / 4, 4_MiB, 64_MiB);
  // Preallocated tails would count against the disk budget.
  db.allow_fallocate = false;
  db.info_log = std::make_shared<NoLog>();
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  // Opening must not depend on how much is stored.
  db.skip_stats_update_on_db_open = true;
  db.max_manifest_file_size = 1_MiB;
  // Each acknowledged batch was synced, so what follows the first torn record was not.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  return db;
}

rocksdb::ColumnFamilyOptions column_options(const DatabaseOptions& options,
                                            const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10));
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  table.data_block_hash_table_util_ratio = 0.75;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  rocksdb::ColumnFamilyOptions column;
  column.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  column.compression = rocksdb::kNoCompression;  // hashes don't compress
  column.write_buffer_size = std::clamp<std::uint64_t>(options.budget_bytes / 16, 1_MiB, 16_MiB);
  column.max_write_buffer_number = 2;
  column.target_file_size_base = column.write_buffer_size;
  column.max_bytes_for_level_base = 4 * column.write_buffer_size;
  column.level_compaction_dynamic_level_bytes = true;
  column.force_consistency_checks = true;
  return column;
}

class StallCount final : public rocksdb::EventListener {
 public:
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    if (info.condition.prev == rocksdb::WriteStallCondition::kNormal) ++count_;
  }
  std::uint64_t value() const { return count_; }

 private:
  std::atomic<std::uint64_t> count_{0};
};

class RocksDatabase final : public Database {
 public:
  explicit RocksDatabase(DatabaseOptions options)
      : options_(std::move(options)),
        environment_(environment_of(options_)),
        cache_(rocksdb::NewLRUCache(options_.cache_bytes)) {}
  ~RocksDatabase() override { close(); }

  Status open();

  Result<std::optional<std::string>> get(Column column, std::string_view key) const override;
  Status multi_get(Column column, std::span<const std::string_view> keys,
                   std::span<std::optional<std::string>> values) const override;
  Status scan(Column column, std::string_view prefix, std::string_view from,
              const Visit& visit) const override;
  Status scan_each(Column column, std::span<const std::string> prefixes,
                   const VisitOf& visit) const override;
  Status write(const DatabaseBatch& batch, bool sync) override;
  Status recover() override;
  std::uint64_t stalls() const override { return stalls_->value(); }

 private:
  Status sync_names_found();
  void close();
  // Null while a recovery could not open it again.
  Status check_open() const {
    if (db_) return {};
    return Error(ErrorKind::io, "index: closed after a failed recovery");
  }
  rocksdb::ColumnFamilyHandle* handle(Column column) const {
    return handles_[static_cast<std::size_t>(column)];
  }

  DatabaseOptions options_;
  const std::unique_ptr<rocksdb::Env> environment_;
  std::shared_ptr<rocksdb::Cache> cache_;
  const std::shared_ptr<StallCount> stalls_ = std::make_shared<StallCount>();
  mutable std::shared_mutex mutex_;  // exclusive only while recover() replaces db_
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, column_count> handles_{};
  rocksdb::ColumnFamilyHandle* default_ = nullptr;
};

// Names that are there may have never been synced: whoever made them may have failed in that, and
// been started again. Were one of them lost later, the files would contradict each other.
Status RocksDatabase::sync_names_found() {
  const rocksdb::IOOptions io;
  rocksdb::FileSystem& files = *environment_->GetFileSystem();
  rocksdb::IOStatus status = files.CreateDirIfMissing(options_.directory, io, nullptr);
  std::unique_ptr<rocksdb::FSDirectory> directory;
  if (status.ok()) status = files.NewDirectory(options_.directory, io, &directory, nullptr);
  if (status.ok()) status = directory->Fsync(io, nullptr);
  return status_of(status);
}

Status RocksDatabase::open() {
  KV_TRY(sync_names_found());
  const rocksdb::ColumnFamilyOptions column = column_options(options_, cache_);
  rocksdb::ColumnFamilyOptions unused = column;
  unused.write_buffer_size = 64_KiB;
  std::vector<rocksdb::ColumnFamilyDescriptor> columns = {
      {rocksdb::kDefaultColumnFamilyName, unused}};
  for (const char* name : column_names) columns.emplace_back(name, column);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  rocksdb::DBOptions db_options = database_options(options_);
  db_options.env = environment_.get();
  db_options.listeners = {stalls_};
  KV_TRY(status_of(rocksdb::DB::Open(db_options, options_.directory, columns, &handles, &db)));
  db_.reset(db);
  default_ = handles.front();
  std::copy(handles.begin() + 1, handles.end(), handles_.begin());
  return {};
}

void RocksDatabase::close() {
  if (!db_) return;
  for (rocksdb::ColumnFamilyHandle* column : handles_) db_->DestroyColumnFamilyHandle(column);
  db_->DestroyColumnFamilyHandle(default_);
  db_->Close().PermitUncheckedError();  // everything acknowledged is in the log
  db_.reset();
}

Result<std::optional<std::string>> RocksDatabase::get(Column column, std::string_view key) const {
  const std::shared_lock lock(mutex_);
  KV_TRY(check_open());
  std::string value;
  const rocksdb::Status status = db_->Get({}, handle(column), slice_of(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return error_of(status);
  return std::optional(std::move(value));
}

Status RocksDatabase::multi_get(Column column, std::span<const std::string_view> keys,
                                std::span<std::optional<std::string>> values) const {
  KV_CHECK(keys.size() == values.size(), "a value for each key");
  const std::shared_lock lock(mutex_);
  KV_TRY(check_open());
  std::vector<rocksdb::Slice> slices;
  slices.reserve(keys.size());
  for (const std::string_view key : keys) slices.push_back(slice_of(key));
  std::vector<rocksdb::PinnableSlice> found(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  db_->MultiGet({}, handle(column), keys.size(), slices.data(), found.data(), statuses.data());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    values[i].reset();
    if (statuses[i].ok()) {
      values[i] = found[i].ToString();
    } else if (!statuses[i].IsNotFound() && !statuses[i].IsCorruption()) {
      return error_of(statuses[i]);
    }
  }
  return {};
}

Status RocksDatabase::scan(Column column, std::string_view prefix, std::string_view from,
                           const Visit& visit) const {
  const std::shared_lock lock(mutex_);
  KV_TRY(check_open());
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}, handle(column)));
  for (it->Seek(slice_of(std::max(prefix, from))); it->Valid(); it->Next()) {
    const std::string_view key =
        it->key().ToStringView();  // a Slice would compare with a null prefix
    if (!key.starts_with(prefix)) break;
    if (!visit(view_of(it->key()), view_of(it->value()))) break;
  }
  return status_of(it->status());
}

// Making an iterator costs several times what seeking with it does.
Status RocksDatabase::scan_each(Column column, std::span<const std::string> prefixes,
                                const VisitOf& visit) const {
  const std::shared_lock lock(mutex_);
  KV_TRY(check_open());
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}, handle(column)));
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    for (it->Seek(prefixes[i]); it->Valid(); it->Next()) {
      const std::string_view key = it->key().ToStringView();
      if (!key.starts_with(prefixes[i]) || !visit(i, key)) break;
    }
    KV_TRY(status_of(it->status()));
  }
  return {};
}

Status RocksDatabase::write(const DatabaseBatch& batch, bool sync) {
  const std::shared_lock lock(mutex_);
  KV_TRY(check_open());
  rocksdb::WriteBatch write_batch;
  for (const DatabaseBatch::Operation& operation : batch.operations()) {
    rocksdb::ColumnFamilyHandle* column = handle(operation.column);
    KV_TRY(status_of(operation.value ? write_batch.Put(column, operation.key, *operation.value)
                                     : write_batch.Delete(column, operation.key)));
  }
  rocksdb::WriteOptions options;
  options.sync = sync;
  return status_of(db_->Write(options, &write_batch));
}

// RocksDB's own Resume() goes on with the log that the failed batch may be in: it appends to a file
// that it must not, or gives that batch's sequence number to another one, and then neither is read.
Status RocksDatabase::recover() {
  const std::unique_lock lock(mutex_);
  close();
  return open();
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const DatabaseOptions& options) {
  auto database = std::make_unique<RocksDatabase>(options);
  KV_TRY(database->open());
  return std::unique_ptr<Database>(std::move(database));
}

}  // namespace kvstrata::storage
