// An OutputFile is written beside the place it is meant for and takes it in one step, whole and
// synced, or not at all: what an object that was not committed wrote goes with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"
#include "tools/kvstrata/container/input_file.h"

namespace kvstrata::tool {

class OutputFile {
 public:
  /// A file of that name is replaced on commit(), a link's target rather than the link; anything
  /// else of that name, and a link to nothing, is `invalid_argument`. Where the group can't be
  /// given, it may do nothing.
  static Result<OutputFile> create(const std::string& path, const FileAccess& access);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write_at(std::uint64_t at, ByteView bytes);
  /// XXH3-64 of what was written, `bytes` in all.
  Result<std::uint64_t> sum(std::uint64_t bytes,
                            const std::function<void(std::uint64_t done)>& progress = {}) const;
  /// Syncs the file, gives it its name and syncs the directory.
  Status commit();

 private:
  OutputFile() = default;

  std::string path_;   ///< as it was given
  std::string place_;  ///< with links followed
  std::string draft_;
  int fd_ = -1, directory_ = -1;
};

}  // namespace kvstrata::tool
