// A StoreDirectory is a store's place on disk, held by one process: the `lock` file, the `identity`
// file and the fixed names below it. The lock is the kernel's and dies with the process, so nothing
// stale ever needs cleaning up; it holds for every path that leads to the directory.
//
// Threads: immutable once open. Lifetime: the lock is held until destruction.
#pragma once

#include <cstdint>
#include <string>

#include "kvstrata/clock.h"
#include "kvstrata/result.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

/// 32 hex digits, as the identity file has them.
std::string hex_of(const StoreId& id);

/// A file descriptor that closes itself.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  int get() const { return fd_; }

 private:
  int fd_;
};

class StoreDirectory {
 public:
  /// Creates what is missing (directories 0700, files 0600), takes the lock, then reads or writes
  /// the identity. `locked` names the process that has it; `unsupported` an unknown format version.
  static Result<StoreDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string segments_path() const { return path_ + "/segments"; }
  std::string index_path() const { return path_ + "/index"; }
  const StoreId& id() const { return id_; }
  std::string id_hex() const;
  /// Whether path() still leads to this store on the file system it was opened on: not to an empty
  /// mount point, another store, or the same one mounted anew. `unavailable` says what is there.
  Status check_in_place() const;

 private:
  StoreDirectory(std::string path, OwnedFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  Status load_or_create_identity();

  std::string path_;
  OwnedFd lock_;
  StoreId id_{};
};

/// A mark in the index's directory that says it was found damaged; gone with that directory.
void mark_index_broken(const StoreDirectory& directory);
bool index_marked_broken(const StoreDirectory& directory);

/// Bytes of disk the regular files below `path` take (st_blocks); links are not followed, and what
/// vanishes meanwhile counts as nothing.
std::uint64_t disk_bytes(const std::string& path);

/// Makes a rename or creation in `directory` durable.
Status sync_directory(const std::string& directory);

}  // namespace kvstrata::storage
