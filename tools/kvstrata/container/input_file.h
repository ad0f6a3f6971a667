// An InputFile is a file that is read at any place. Its size is that of when it was opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::tool {

/// Told now and then what is done, and how much of it; called with 0 of 0 where that is not known.
using ProgressCallback =
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)>;

/// Who may read a file.
struct FileAccess {
  std::uint32_t mode = 0600;           ///< permission bits
  std::int64_t user = -1, group = -1;  ///< -1: whoever makes the file
};

class InputFile {
 public:
  /// A regular file that is not empty; `invalid_argument` for anything else that exists.
  static Result<InputFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  const FileAccess& access() const { return access_; }

  /// Fills `out`; `corrupt` if the file ends before.
  Status read_at(std::uint64_t at, MutableBytes out) const;
  /// XXH3-64 of the whole file.
  Result<std::uint64_t> sum(const std::function<void(std::uint64_t done)>& progress = {}) const;
  /// `conflict` if somebody wrote to the file since it was opened.
  Status check_unchanged() const;

 private:
  std::string path_;
  std::shared_ptr<const int> fd_;
  std::uint64_t bytes_ = 0;
  std::int64_t changed_s_ = 0, changed_ns_ = 0;
  FileAccess access_;
};

}  // namespace kvstrata::tool
