#include "storage/store_open.h"

#include <algorithm>
#include <unordered_set>

#include "storage/aside_files.h"

namespace kvstrata::storage {

namespace {

constexpr std::string_view store_name = "store";
constexpr std::string_view format_name = "format";
constexpr std::string_view next_segment_name = "next_segment";
constexpr std::uint64_t index_format = 1;
// Above every sequence a crash may have left in a segment without telling the index.
constexpr std::uint64_t sequence_gap = std::uint64_t{1} << 20;

// Of memory, for hot index blocks: of some million entries, but no more than a small index has. It
// also keeps blocks of table files that are gone until others push them out, so it always fills.
std::uint64_t index_cache_bytes(const SizePlan& sizes) {
  return std::clamp(sizes.index_reserve_bytes / 8, 2_MiB, 64_MiB);
}

struct OpenedIndex {
  std::unique_ptr<Database> database;
  std::vector<SegmentTable::Row> rows;
  std::uint64_t next_segment = 1;
};

// A fresh index is marked as this store's; any other one must be.
Status check_owner(Database& database, const StoreDirectory& directory) {
  KV_ASSIGN(const std::optional<std::string> store, database.get(Column::meta, store_name));
  if (store) {
    KV_ASSIGN(const std::uint64_t format, Index(database).number(format_name));
    if (format != index_format) {
      return Error(ErrorKind::unsupported,
                   "index: format " + std::to_string(format) + " is not known to this version");
    }
    if (*store == directory.id_hex()) return {};
    return Error(ErrorKind::corrupt, "index: it belongs to another store");
  }
  if (first_unused_segment(directory.path()) > 1) {
    return Error(ErrorKind::corrupt, "index: it is missing, though there are segments");
  }
  DatabaseBatch batch;
  batch.put(Column::meta, std::string(store_name), directory.id_hex());
  batch.put(Column::meta, std::string(format_name), number_value(index_format));
  return database.write(batch, true);
}

Result<OpenedIndex> open_index(const StoreDirectory& directory, const DatabaseOptions& options) {
  if (index_marked_broken(directory)) {
    return Error(ErrorKind::corrupt, "index: it was found damaged while it was in use");
  }
  OpenedIndex opened;
  KV_ASSIGN(opened.database, Database::open(options));
  KV_TRY(check_owner(*opened.database, directory));
  const Index index(*opened.database);
  KV_ASSIGN(opened.rows, index.segments());
  KV_ASSIGN(opened.next_segment, index.number(next_segment_name));
  KV_TRY(Catalog().load(index));
  return opened;
}

// In place of an index that can't be used; the old segments keep their ids, so new ones start
// above.
Result<OpenedIndex> open_fresh_index(const StoreDirectory& directory,
                                     const DatabaseOptions& options) {
  OpenedIndex opened;
  KV_ASSIGN(opened.database, Database::open(options));
  DatabaseBatch batch;
  batch.put(Column::meta, std::string(store_name), directory.id_hex());
  batch.put(Column::meta, std::string(format_name), number_value(index_format));
  KV_TRY(opened.database->write(batch, true));
  opened.next_segment = 1;
  return opened;
}

Result<OpenedIndex> open_or_replace_index(const StoreDirectory& directory,
                                          const DatabaseOptions& options, std::uint64_t unix_ms,
                                          std::string& empty_because) {
  Result<OpenedIndex> opened = open_index(directory, options);
  if (opened || opened.error().kind() != ErrorKind::corrupt) return opened;
  KV_ASSIGN(const std::string bad, set_store_aside(directory.path(), unix_ms));
  empty_because = opened.error().message() + "; it was moved to " + bad +
                  " and the store starts empty. Its segments are kept aside until `kvstrata "
                  "recover` or until their space is needed";
  return open_fresh_index(directory, options);
}

}  // namespace

Result<OpenedState> open_state(StoreOptions options) {
  KV_ASSIGN(const SizePlan sizes, plan_sizes(options.disk_budget_bytes, options.segment_bytes,
                                             options.index_reserve_bytes));
  KV_ASSIGN(StoreDirectory directory, StoreDirectory::open(options.directory));
  OpenedState result;
  const DatabaseOptions database = {directory.index_path(), sizes.index_reserve_bytes,
                                    index_cache_bytes(sizes), options.index_environment};
  KV_ASSIGN(OpenedIndex index, open_or_replace_index(directory, database, options.clock->unix_ms(),
                                                     result.empty_because));
  std::uint32_t next_segment = std::max(static_cast<std::uint32_t>(index.next_segment),
                                        first_unused_segment(directory.path()));
  result.state = std::make_unique<StoreState>(std::move(options), std::move(directory), sizes,
                                              std::move(index.database));
  StoreState& state = *result.state;
  state.segments.load(index.rows);
  KV_TRY(state.catalog.load(state.index));
  std::uint64_t sequence = 0;
  for (const auto& [segment, row] : index.rows) {
    sequence = std::max(sequence, row.sequence_end);
    next_segment = std::max(next_segment, segment.value + 1);
    if (row.state == SegmentState::open) result.open_segments.emplace_back(segment, row);
  }
  state.next_segment = next_segment;
  state.next_sequence = sequence + sequence_gap;
  return result;
}

void find_lost_segments(StoreState& state, const std::vector<std::string>& names) {
  const std::unordered_set<std::string> present(names.begin(), names.end());
  for (const auto& [segment, row] : state.segments.rows()) {
    const bool holds_something = row.state != SegmentState::free && row.live_bytes > 0;
    if (holds_something && !present.contains(segment_file_name(segment))) {
      state.errands.add_lost(segment);
    }
  }
}

}  // namespace kvstrata::storage
