// A ScratchDirectory is a directory of a benchmark's own; it goes with the object, and all in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "bench/common/process.h"

namespace kvstrata::bench {

class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& parent) {
    path_ = parent + "/kvstrata-bench-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) fail("can't make a directory in " + parent);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kvstrata::bench
