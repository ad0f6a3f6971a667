// Helpers of the device tests: temporary directories, the back ends to try a rule on, patterns
// that show where bytes came from, and seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/device/aligned_buffer.h"
#include "storage/device/device.h"

namespace kvstrata::storage::testing {

/// A TempDirectory is a fresh directory, removed with all in it at the end.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A BackEnd is one way to get a Device on an empty directory of its own.
struct BackEnd {
  std::string name;
  std::function<std::unique_ptr<Device>(std::size_t queue_depth)> open;
  std::shared_ptr<TempDirectory> directory;  ///< null for those in memory
};

/// Every back end: io_uring in its three forms, psync, memory.
std::vector<BackEnd> all_back_ends();
/// Those that use the file system.
std::vector<BackEnd> disk_back_ends();

/// Fills with a pattern that differs by seed and by place.
void fill(MutableBytes bytes, std::uint64_t seed);
/// Whether these are the bytes of fill() that begin `skip` bytes into it.
bool filled_with(ByteView bytes, std::uint64_t seed, std::uint64_t skip = 0);

/// A file of `bytes` filled with `seed`, written and open.
FileHandle make_file(Device& device, const std::string& name, std::uint64_t bytes,
                     std::uint64_t seed);

/// Waits for all in flight; the completions in the order they came.
std::vector<IoCompletion> wait_all(Device& device);

IoRequest read_request(FileHandle file, std::uint64_t offset, const AlignedBuffer& buffer,
                       std::uint64_t tag = 0);
IoRequest write_request(FileHandle file, std::uint64_t offset, const AlignedBuffer& buffer,
                        std::uint64_t tag = 0);
/// Reads that together fill the buffer from the file's begin: `count` equal parts, tags from `tag`.
std::vector<IoRequest> reads_of_parts(FileHandle file, std::size_t count,
                                      const AlignedBuffer& buffer, std::uint64_t tag = 0);
IoRequest sync_request(FileHandle file, std::uint64_t tag = 0);

/// The seed of a random test: KVSTRATA_SEED, or a new one; printed.
std::uint64_t test_seed(const char* test);

/// Runs `child` in a forked process and gives its exit code, or -signal.
int in_child(const std::function<int()>& child);

/// Makes a system call fail in this process, as the seccomp profile of a container does; with
/// `flags` only where its third argument has one of them. There is no way back: use in a child.
bool forbid(int system_call, int error_number, unsigned flags = 0);

}  // namespace kvstrata::storage::testing
