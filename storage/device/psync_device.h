// A PsyncDevice moves bytes with pread, pwrite and fdatasync on a few threads of its own: it works
// on every kernel and under every seccomp profile.
//
// Threads: as Device; its workers touch only the queue, descriptors and the buffers in flight.
// Lifetime: the destructor runs what is queued, then ends the workers.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/device/posix_device.h"

namespace kvstrata::storage {

class PsyncDevice final : public PosixDevice {
 public:
  PsyncDevice(std::shared_ptr<const PosixDirectory> directory, std::size_t queue_depth);
  ~PsyncDevice() override;

  std::string name() const override { return "psync"; }
  Result<std::unique_ptr<Device>> clone() const override;

 protected:
  Status register_buffer_impl(std::byte* buffer, std::uint64_t bytes) override;
  void unregister_buffer_impl(std::byte* buffer) override;
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override;
  void flush_submissions_impl() override;
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

 private:
  struct Attempt {
    IoRequest request;
    int fd = -1;
    std::uint64_t user_data = 0;
  };

  void work();
  static std::int64_t transfer(const Attempt& attempt);

  std::mutex mutex_;
  std::condition_variable queued_changed_;
  std::condition_variable ended_changed_;
  std::deque<Attempt> queued_;        // bounded by queue_depth(), as all in flight
  std::vector<RawCompletion> ended_;  // likewise
  bool stopping_ = false;
  std::size_t unannounced_ = 0;  // queued since the workers were last woken; of the owner's thread
  std::vector<std::thread> workers_;
};

}  // namespace kvstrata::storage
