// A UringDevice moves bytes through one io_uring: batched submission, direct I/O, and registered
// files and buffers where the kernel takes them.
//
// Threads: as Device. The ring belongs to the first thread that submits; when the device is used
// by another one while nothing is in flight, that thread gets a new ring.
// Lifetime: the destructor waits until the kernel has given every buffer back.
#pragma once

#include <memory>
#include <vector>

#include "storage/device/posix_device.h"
#include "storage/device/uring_ring.h"
#include "storage/device/uring_tables.h"

namespace kvstrata::storage {

struct UringDeviceOptions {
  std::size_t queue_depth = 64;
  bool single_issuer = true;       ///< false: as on older kernels, for tests
  bool register_resources = true;  ///< false: as under a tiny memlock, for tests
  bool may_fall_back = true;       ///< clone() gives psync where no further ring can be made
  const UringSystem* system = &UringSystem::kernel();
};

class UringDevice final : public PosixDevice {
 public:
  static Result<std::unique_ptr<Device>> open(std::shared_ptr<const PosixDirectory> directory,
                                              const UringDeviceOptions& options);
  ~UringDevice() override;

  std::string name() const override { return "io_uring"; }
  Result<std::unique_ptr<Device>> clone() const override;

 protected:
  Result<FileHandle> open_impl(const std::string& name, bool create) override;
  void close_impl(FileHandle file) override;
  Status register_buffer_impl(std::byte* buffer, std::uint64_t bytes) override;
  void unregister_buffer_impl(std::byte* buffer) override;
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override;
  void flush_submissions_impl() override;
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

 private:
  UringDevice(std::shared_ptr<const PosixDirectory> directory, const UringDeviceOptions& options)
      : PosixDevice(std::move(directory), options.queue_depth), options_(options) {}

  Status make_ring();
  Status own_ring();
  void apply_tables();
  void fill_entry(io_uring_sqe& entry, const IoRequest& request);
  void collect(std::vector<RawCompletion>& ended);

  UringDeviceOptions options_;
  std::unique_ptr<UringRing> ring_;
  UringFileTable files_;
  UringBufferTable buffers_;
  std::size_t outstanding_ = 0;  // attempts handed to the ring and not collected yet
  std::size_t unsubmitted_ = 0;  // of these, entries that wait for the next submit
  std::vector<UringRing::Completion> completed_;  // failed before the kernel saw them, and scratch
};

}  // namespace kvstrata::storage
