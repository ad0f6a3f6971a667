// A DeviceDecorator passes every hook on to another Device, below its public part: the outermost
// device alone checks, continues and counts. Subclasses change what passes.
//
// Threads: as Device. Lifetime: it owns the inner device, whose destructor waits for what is in
// flight.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "storage/device/device.h"

namespace kvstrata::storage {

class DeviceDecorator : public Device {
 public:
  std::size_t queue_depth() const final { return inner_->queue_depth(); }

 protected:
  explicit DeviceDecorator(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

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
  void flush_submissions_impl() override;
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

  const Device& inner() const { return *inner_; }
  /// Attempts the inner device has and has not reported.
  std::size_t inner_attempts() const { return inner_attempts_.size(); }

 private:
  std::unique_ptr<Device> inner_;
  std::unordered_set<std::uint64_t> inner_attempts_;  // their user_data
};

}  // namespace kvstrata::storage
