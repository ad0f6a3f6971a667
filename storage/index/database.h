// A Database is the RocksDB instance under the index, reduced to what the index needs: named
// column families of ordered byte keys, atomic synced batches, and a way back from a full disk.
// What the keys and values mean: doc/index-format.md, block_value.h and index.h.
//
// Threads: every method may be called from any thread. Lifetime: closes on destruction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstrata/result.h"

namespace rocksdb {
class Env;
}

namespace kvstrata::storage {

/// The column families; their names on disk are fixed (doc/index-format.md).
enum class Column : std::uint8_t {
  blocks,
  children,
  segments,
  placements,
  namespaces,
  tables,
  meta,
};
inline constexpr std::size_t column_count = 7;

struct DatabaseOptions {
  std::string directory;
  std::uint64_t budget_bytes = 0;       ///< of its files; sizes of buffers and logs follow from it
  std::uint64_t cache_bytes = 0;        ///< of memory for blocks of table files
  rocksdb::Env* environment = nullptr;  ///< the machine it runs on; null: the real one
};

/// A DatabaseBatch collects puts and removals that become true together.
class DatabaseBatch {
 public:
  struct Operation {
    Column column;
    std::string key;
    std::optional<std::string> value;  ///< none: remove
  };

  void put(Column column, std::string key, std::string value) {
    operations_.push_back({column, std::move(key), std::move(value)});
  }
  void remove(Column column, std::string key) {
    operations_.push_back({column, std::move(key), std::nullopt});
  }
  bool empty() const { return operations_.empty(); }
  std::span<const Operation> operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

class Database {
 public:
  /// Opens or creates. `corrupt`: its files contradict each other or are missing, and opening again
  /// won't help; every other error is the machine's (no space, no rights) and may pass.
  static Result<std::unique_ptr<Database>> open(const DatabaseOptions& options);
  virtual ~Database() = default;

  virtual Result<std::optional<std::string>> get(Column column, std::string_view key) const = 0;
  /// values[i] is that of keys[i]; one MultiGet. What lies in a damaged part counts as absent.
  virtual Status multi_get(Column column, std::span<const std::string_view> keys,
                           std::span<std::optional<std::string>> values) const = 0;
  /// Visits keys >= `from` that start with `prefix`, in order, until `visit` returns false. `visit`
  /// must not call the database.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  virtual Status scan(Column column, std::string_view prefix, std::string_view from,
                      const Visit& visit) const = 0;
  /// scan() of each prefix by its number, until `visit` returns false for it; many short scans cost
  /// less together.
  using VisitOf = std::function<bool(std::size_t prefix, std::string_view key)>;
  virtual Status scan_each(Column column, std::span<const std::string> prefixes,
                           const VisitOf& visit) const = 0;
  /// Applies the batch; with `sync` it is durable on return.
  virtual Status write(const DatabaseBatch& batch, bool sync) = 0;
  /// After a failed write: makes writes possible again, by closing and opening. What a failed batch
  /// held may be there afterwards.
  virtual Status recover() = 0;
  /// How often RocksDB began to slow or stop writes because its background work lags.
  virtual std::uint64_t stalls() const = 0;
};

}  // namespace kvstrata::storage
