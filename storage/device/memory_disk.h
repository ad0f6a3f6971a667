// A MemoryDisk is a directory of files in memory that knows what a power cut may take: names,
// sizes and sectors (MemoryFile) that were not synced.
//
// Threads: safe from any; one lock. Lifetime: shared by the MemoryDevices on it and whoever
// crashes it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"
#include "storage/device/memory_file.h"

namespace kvstrata::storage {

class MemoryDisk {
 public:
  using FilePointer = std::shared_ptr<MemoryFile>;

  /// A disk with room for `capacity_bytes` of file contents; beyond it is ENOSPC.
  explicit MemoryDisk(std::uint64_t capacity_bytes = 1_GiB);
  MemoryDisk(const MemoryDisk&) = delete;
  MemoryDisk& operator=(const MemoryDisk&) = delete;

  /// Counts crashes. What was opened in an earlier epoch is EIO from then on.
  std::uint64_t epoch() const;
  std::uint64_t used_bytes() const;

  /// Pulls the plug: of everything not synced (sectors, sizes, names made or removed) `random`
  /// chooses what stays, each by itself.
  void crash(std::mt19937_64& random);
  /// The same, with `keeps` asked of each name and sector in order.
  void crash(const std::function<bool()>& keeps);

  /// `fails` is asked at each data sync whether it fails. As with a kernel, the pages it should
  /// have written count as clean from then on: no later sync writes them, and a crash may lose
  /// them.
  void fail_syncs(std::function<bool()> fails);

  // What a MemoryDevice calls, each with the epoch it was made in.
  Result<FilePointer> open(std::uint64_t epoch, const std::string& name, bool create);
  Status remove(std::uint64_t epoch, const std::string& name);
  Status sync_directory(std::uint64_t epoch);
  Result<std::vector<std::string>> list(std::uint64_t epoch) const;
  Status allocate(std::uint64_t epoch, MemoryFile& file, std::uint64_t bytes);
  Result<std::uint64_t> size(std::uint64_t epoch, const MemoryFile& file) const;
  /// These three answer as the system calls: a byte count (or 0), or a negative errno.
  std::int64_t read(std::uint64_t epoch, const MemoryFile& file, std::uint64_t offset,
                    MutableBytes out) const;
  std::int64_t write(std::uint64_t epoch, MemoryFile& file, std::uint64_t offset, ByteView bytes);
  std::int64_t data_sync(std::uint64_t epoch, MemoryFile& file);
  /// The writer was told of its write; only now can a sync cover it.
  void acknowledge(std::uint64_t epoch, MemoryFile& file, std::uint64_t offset,
                   std::uint64_t bytes);

 private:
  using Names = std::map<std::string, FilePointer>;

  Status check_epoch(std::uint64_t epoch) const;

  const std::uint64_t capacity_bytes_;
  const MemoryFile::Room room_;
  mutable std::mutex mutex_;
  std::uint64_t epoch_ = 1;
  std::function<bool()> sync_fails_;
  Names names_;          // as the program sees them
  Names durable_names_;  // as of the last sync_directory()
};

}  // namespace kvstrata::storage
