// The language of the store tests: a Shelf is a store in a directory of its own, whose blocks are
// numbers. Block n has content that follows from n, so every byte read back can be judged.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstrata/clock.h"
#include "storage/store.h"

namespace kvstrata::storage::testing {

enum class Medium : std::uint8_t {
  fast,  ///< in memory where there is room, for tests that write much
  disk,  ///< the usual place for temporary files
};

/// A fresh directory, removed with all in it at the end.
class TempDirectory {
 public:
  explicit TempDirectory(Medium medium = Medium::disk);
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// How a block is put.
struct Put {
  std::optional<int> parent;
  std::uint64_t bytes = 64_KiB;
  bool pinned = false;
  std::uint64_t expires_unix_ms = 0;
  TableId table{};
  std::uint8_t codec = 1;
};

/// A value that arrives later, on another thread.
template <typename T>
class Awaited {
 public:
  std::function<void(T)> setter() {
    return [state = state_](T value) {
      const std::lock_guard lock(state->mutex);
      state->value.emplace(std::move(value));
      state->arrived.notify_all();
    };
  }
  T get() {
    std::unique_lock lock(state_->mutex);
    state_->arrived.wait(lock, [&] { return state_->value.has_value(); });
    return *std::exchange(state_->value, std::nullopt);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class Shelf {
 public:
  /// 64 MiB of budget in segments of 1 MiB, unless told otherwise.
  static StoreOptions small_options();

  explicit Shelf(StoreOptions options = small_options(), Medium medium = Medium::fast);
  /// On the directory of another one, which has closed (or died).
  Shelf(const std::string& directory, StoreOptions options);

  Store& store() { return *store_; }
  Store* operator->() { return store_.get(); }
  const std::string& directory() const { return options_.directory; }
  NamespaceId ns() const { return ns_; }
  StoreOptions& options() { return options_; }

  void close() { store_.reset(); }
  /// Opens again, with options() as they are now.
  void reopen();

  BlockKey key(int n, std::uint16_t group = 0) const;
  /// Starts a put of block n.
  Awaited<Result<IndexEntry>> start_put(int n, const Put& how = {});
  /// Puts block n durably; the test fails if that fails.
  void put(int n, const Put& how = {});
  Result<IndexEntry> try_put(int n, const Put& how = {});
  /// Puts blocks first..last, each the parent of the next.
  void put_chain(int first, int last, const Put& how = {});

  bool has(int n);
  std::optional<IndexEntry> entry(int n);
  Result<ReadRecord> read(int n);
  /// Whether block n reads back with the content and identity it was put with.
  bool intact(int n, std::uint64_t bytes = 64_KiB);
  /// How many of first..last are there.
  int count(int first, int last);
  RemovalCounts erase(int n, bool with_descendants = false, bool also_pinned = false);

  /// Bytes the whole directory takes on disk.
  std::uint64_t disk_usage() const;

 private:
  void open();

  std::shared_ptr<TempDirectory> own_directory_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
  NamespaceId ns_{};
};

/// The content of block n.
ByteVector content_of(int n, std::uint64_t bytes);
ByteVector identity_of(int n);
NamespaceSpec a_namespace(std::string_view tenant = "tenant");

/// A ChildRole is something this program can do as another process, named in a table: define one at
/// namespace scope, beside the test that starts it.
class ChildRole {
 public:
  using Play = void (*)(const std::vector<std::string>& arguments);
  ChildRole(const char* name, Play play);
};
/// What main() does first: plays the role this process was started for, if any, and exits.
void play_child_role();

/// A ChildProcess plays a ChildRole in a process of its own. It is killed at the end of its scope
/// unless it was waited for.
class ChildProcess {
 public:
  ChildProcess(const std::string& role, const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  /// Waits until it ends by itself or by signal; what waitpid() reports.
  int wait();
  void kill();

 private:
  int pid_ = 0;
};

/// Ends this process as kill -9 does.
[[noreturn]] void die_here();

/// Flips the bytes at `offset` of a file.
void damage(const std::string& path, std::uint64_t offset, std::uint64_t bytes = 8);
std::string segment_path(const Shelf& shelf, SegmentId segment);
std::vector<std::string> files_in(const std::string& directory);

/// The hex digits of the worked example `name` of a page: those of the code block that follows the
/// line "Example: `name`", without comments (from "#" on) and blanks.
std::string read_example(const std::string& page, std::string_view name);

}  // namespace kvstrata::storage::testing
