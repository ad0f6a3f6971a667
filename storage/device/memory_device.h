// A MemoryDevice is a Device on a MemoryDisk: no file system, no waiting, and a disk that can be
// crashed. Requests run when they are submitted; a write counts as done only when its completion
// is handed out.
//
// Threads: as Device; clones share the disk. Lifetime: it keeps the disk alive. A device opened
// before a crash answers EIO to everything after it.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "storage/device/device.h"
#include "storage/device/memory_disk.h"

namespace kvstrata::storage {

class MemoryDevice final : public Device {
 public:
  explicit MemoryDevice(std::shared_ptr<MemoryDisk> disk, std::size_t queue_depth = 64);
  ~MemoryDevice() override;

  std::size_t queue_depth() const override { return queue_depth_; }
  std::string name() const override { return "memory"; }
  /// On the same disk, in the disk's present epoch: after a crash() the clone works.
  Result<std::unique_ptr<Device>> clone() const override;

  const std::shared_ptr<MemoryDisk>& disk() const { return disk_; }
  void crash(std::mt19937_64& random) { disk_->crash(random); }

 protected:
  Result<FileHandle> open_impl(const std::string& name, bool create) override;
  void close_impl(FileHandle file) override;
  Status allocate_impl(FileHandle file, std::uint64_t bytes) override;
  Result<std::uint64_t> size_impl(FileHandle file) override;
  Status remove_impl(const std::string& name) override;
  Status sync_directory_impl() override;
  Result<std::vector<std::string>> list_impl() override;
  Status register_buffer_impl(std::byte* buffer, std::uint64_t bytes) override;
  void unregister_buffer_impl(std::byte* buffer) override;
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override;
  void flush_submissions_impl() override {}
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

 private:
  struct Attempt {
    RawCompletion completion;
    MemoryDisk::FilePointer written;  // null but for writes that moved bytes
    std::uint64_t offset = 0;
  };

  MemoryFile& file(FileHandle file) const;
  void acknowledge(const Attempt& attempt);

  std::shared_ptr<MemoryDisk> disk_;
  std::size_t queue_depth_;
  std::uint64_t epoch_;
  std::vector<MemoryDisk::FilePointer> files_;
  std::vector<Attempt> attempts_;  // run, not handed out yet
};

}  // namespace kvstrata::storage
