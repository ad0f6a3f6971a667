// A PosixDirectory is a directory of the file system held open by descriptor: everything a device
// does to files by name goes through it, so that a renamed or remounted path can't mislead it.
//
// Threads: immutable after open(), safe from any thread; devices and their clones share one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvstrata/result.h"

namespace kvstrata::storage {

/// A UniqueFd owns a file descriptor and closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int release();

  int fd_ = -1;
};

class PosixDirectory {
 public:
  /// Opens the directory. `direct` asks for O_DIRECT; where the file system refuses it, files are
  /// opened buffered and `*note` says so.
  static Result<std::shared_ptr<const PosixDirectory>> open(const std::string& path, bool direct,
                                                            std::string* note);

  /// Opens (or creates, mode 0600) a regular file for reading and writing, never a symbolic link.
  Result<UniqueFd> open_file(const std::string& name, bool create) const;
  Status remove(const std::string& name) const;
  Status sync() const;
  Result<std::vector<std::string>> list() const;

  bool direct() const { return direct_; }

 private:
  PosixDirectory(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  std::string refusal_of_direct() const;

  UniqueFd fd_;
  std::string path_;
  bool direct_ = false;
};

/// Backs [0, bytes) of a file by space: fallocate, or zeros where the file system has none.
Status allocate_space(int fd, std::uint64_t bytes);

/// The fallback of allocate_space(): writes zeros from the file's end up to `bytes`.
Status allocate_by_writing(int fd, std::uint64_t bytes);

Result<std::uint64_t> file_size(int fd);

}  // namespace kvstrata::storage
