// A SimulatedDisk holds the files of a RocksDB database and knows what a power cut may take from
// them: it keeps to what POSIX promises and to no more. fsync of a file makes its content and size
// durable, fsync of a directory the names in it. Of everything else (sectors appended, sizes,
// names made, removed or renamed) a cut keeps any subset, and may tear a sector.
//
// Files only grow at their end, as RocksDB writes them. Errors are negative errno values.
// Threads: any; one lock. Lifetime: outlives the databases on it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kvstrata::simulation {

class SimulatedDisk {
 public:
  static constexpr std::size_t sector_bytes = 4096;

  enum class Operation : std::uint8_t { open, read, append, sync, sync_directory, rename, remove };
  static constexpr std::size_t operation_count = 7;

  struct Fault {
    Operation operation = Operation::append;
    std::uint64_t nth = 1;  ///< counted from when it is planned, from 1
    bool from_then_on = false;
    int error_number = 5;
    bool half_done = false;  ///< an append of which the first half is done; else nothing is
  };

  /// `before` is called ahead of every operation, without the disk's lock.
  explicit SimulatedDisk(std::function<void()> before) : before_(std::move(before)) {}

  class File;
  using FilePointer = std::shared_ptr<File>;

  /// An existing file, or a new empty one in place of whatever has the name.
  int open(const std::string& path, FilePointer& file);
  int create(const std::string& path, FilePointer& file);
  std::int64_t read(const File& file, std::uint64_t offset, std::size_t bytes, char* out);
  int append(File& file, std::string_view bytes);
  int sync(File& file);
  std::uint64_t size(const File& file) const;

  bool exists(const std::string& path) const;
  bool is_directory(const std::string& path) const;
  int file_size(const std::string& path, std::uint64_t& bytes) const;
  int rename(const std::string& from, const std::string& to);
  int remove(const std::string& path);
  int list(const std::string& directory, std::vector<std::string>& names) const;
  void make_directory(const std::string& path);
  int sync_directory(const std::string& path);

  /// The power goes: `random` decides what stays. Everything answers EIO until switch_on(), and
  /// files opened before for ever.
  void crash(std::mt19937_64& random);
  void switch_on();

  void plan(const Fault& fault);
  void clear_faults();
  std::uint64_t operations(Operation operation) const;
  std::uint64_t faults_struck() const;

 private:
  using Names = std::map<std::string, FilePointer>;
  struct Directory {
    Names names;    // as programs see them
    Names durable;  // as of the last sync_directory()
  };
  struct Planned {
    Fault fault;
    std::uint64_t at = 0;
  };

  const Fault* strikes(Operation operation);
  int begin(Operation operation, std::uint64_t epoch);
  Directory* directory_of(const std::string& path, std::string& name);
  const Directory* directory_of(const std::string& path, std::string& name) const;

  const std::function<void()> before_;
  mutable std::mutex mutex_;
  bool on_ = true;
  std::uint64_t epoch_ = 1;
  std::map<std::string, Directory> directories_;
  std::array<std::uint64_t, operation_count> counts_{};
  std::vector<Planned> faults_;
  std::optional<Fault> last_;
  std::uint64_t struck_ = 0;
};

/// One file: what it reads as, and how much of that is certain.
class SimulatedDisk::File {
 public:
  explicit File(std::uint64_t epoch) : epoch_(epoch) {}

 private:
  friend class SimulatedDisk;
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  void crash(std::mt19937_64& random);
  void lose_sectors(std::mt19937_64& random, const Range& range);

  std::uint64_t epoch_;  // of its last opening
  std::string bytes_;
  std::size_t durable_ = 0;       // up to here everything was synced
  std::vector<Range> abandoned_;  // a sync of these failed: no later one writes them
};

}  // namespace kvstrata::simulation
