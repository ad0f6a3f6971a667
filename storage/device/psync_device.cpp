#include "storage/device/psync_device.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace kvstrata::storage {

namespace {

// Enough to keep an NVMe drive busy with large transfers, few enough to start for every device.
constexpr std::size_t workers_max = 8;

}  // namespace

PsyncDevice::PsyncDevice(std::shared_ptr<const PosixDirectory> directory, std::size_t queue_depth)
    : PosixDevice(std::move(directory), queue_depth) {
  for (std::size_t i = 0; i < std::min(queue_depth, workers_max); ++i) {
    workers_.emplace_back([this] { work(); });
  }
}

PsyncDevice::~PsyncDevice() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_changed_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

Result<std::unique_ptr<Device>> PsyncDevice::clone() const {
  return std::unique_ptr<Device>(std::make_unique<PsyncDevice>(directory(), queue_depth()));
}

Status PsyncDevice::register_buffer_impl(std::byte*, std::uint64_t) {
  return Error(ErrorKind::unsupported, "psync has no registered buffers");
}

void PsyncDevice::unregister_buffer_impl(std::byte*) {}

Status PsyncDevice::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  const std::lock_guard lock(mutex_);
  queued_.push_back({.request = request, .fd = fd_of(request.file), .user_data = user_data});
  ++unannounced_;
  return {};
}

void PsyncDevice::flush_submissions_impl() {
  for (; unannounced_ > 0; --unannounced_) {
    queued_changed_.notify_one();
  }
}

Result<std::size_t> PsyncDevice::wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                           Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  ended_changed_.wait_for(lock, timeout, [&] { return ended_.size() >= minimum; });
  const std::size_t count = ended_.size();
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
  return count;
}

void PsyncDevice::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_changed_.wait(lock, [this] { return stopping_ || !queued_.empty(); });
    if (queued_.empty()) {
      return;  // stopping, and everything that was queued has run
    }
    const Attempt attempt = queued_.front();
    queued_.pop_front();
    lock.unlock();
    const std::int64_t result = transfer(attempt);
    lock.lock();
    ended_.push_back({.user_data = attempt.user_data, .result = result});
    ended_changed_.notify_one();
  }
}

std::int64_t PsyncDevice::transfer(const Attempt& attempt) {
  const IoRequest& request = attempt.request;
  std::int64_t result = -1;
  switch (request.operation) {
    case IoOperation::read:
      result =
          ::pread(attempt.fd, request.buffer, request.bytes, static_cast<off_t>(request.offset));
      break;
    case IoOperation::write:
      result =
          ::pwrite(attempt.fd, request.buffer, request.bytes, static_cast<off_t>(request.offset));
      break;
    case IoOperation::data_sync: result = ::fdatasync(attempt.fd); break;
  }
  return result < 0 ? -errno : result;
}

}  // namespace kvstrata::storage
