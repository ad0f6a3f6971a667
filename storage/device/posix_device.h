// A PosixDevice is the half that io_uring and psync have in common: files of a PosixDirectory by
// descriptor. Threads and lifetime: as Device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/device/device.h"
#include "storage/device/posix_directory.h"

namespace kvstrata::storage {

class PosixDevice : public Device {
 public:
  std::size_t queue_depth() const final { return queue_depth_; }

 protected:
  PosixDevice(std::shared_ptr<const PosixDirectory> directory, std::size_t queue_depth)
      : directory_(std::move(directory)), queue_depth_(queue_depth) {}

  Result<FileHandle> open_impl(const std::string& name, bool create) override;
  void close_impl(FileHandle file) override;
  Status allocate_impl(FileHandle file, std::uint64_t bytes) final;
  Result<std::uint64_t> size_impl(FileHandle file) final;
  Status remove_impl(const std::string& name) final;
  Status sync_directory_impl() final;
  Result<std::vector<std::string>> list_impl() final;

  /// The descriptor of an open file; its handle's value is its place, small numbers first.
  int fd_of(FileHandle file) const;
  const std::shared_ptr<const PosixDirectory>& directory() const { return directory_; }

 private:
  std::shared_ptr<const PosixDirectory> directory_;
  std::size_t queue_depth_;
  std::vector<UniqueFd> files_;
};

}  // namespace kvstrata::storage
