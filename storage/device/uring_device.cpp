#include "storage/device/uring_device.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "kvstrata/check.h"
#include "storage/device/psync_device.h"

namespace kvstrata::storage {

namespace {

// How long a destructor waits for the kernel before it gives up the process: freeing the buffers
// instead would let the kernel write into memory that is somebody else's by then.
constexpr Milliseconds drain_step = std::chrono::seconds(1);
constexpr int drain_steps_max = 600;

bool transient(int error_number) {
  return error_number == EINTR || error_number == EAGAIN || error_number == EBUSY ||
         error_number == ETIME;
}

std::string memlock_hint() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "transfers go on unregistered";
  }
  return "RLIMIT_MEMLOCK is " + std::to_string(limit.rlim_cur / 1024) +
         " KiB for all of the user's processes; transfers go on unregistered";
}

}  // namespace

Result<std::unique_ptr<Device>> UringDevice::open(std::shared_ptr<const PosixDirectory> directory,
                                                  const UringDeviceOptions& options) {
  std::unique_ptr<UringDevice> device(new UringDevice(std::move(directory), options));
  KV_TRY(device->make_ring());
  return std::unique_ptr<Device>(std::move(device));
}

UringDevice::~UringDevice() {
  if (outstanding_ > 0 && !ring_->usable_here()) {
    KV_CHECK(ring_->end(drain_step * drain_steps_max), "the kernel never gave up a closed ring");
    return;
  }
  std::vector<RawCompletion> ended;
  for (int steps = 0; outstanding_ > 0; ++steps) {
    KV_CHECK(steps < drain_steps_max, "the kernel never gave up the requests in flight");
    if (!wait_impl(ended, 1, drain_step)) {
      std::this_thread::sleep_for(drain_step);
    }
  }
}

Result<std::unique_ptr<Device>> UringDevice::clone() const {
  Result<std::unique_ptr<Device>> device = open(directory(), options_);
  if (!device && options_.may_fall_back) {
    return std::unique_ptr<Device>(std::make_unique<PsyncDevice>(directory(), queue_depth()));
  }
  return device;
}

// --- the ring and its tables ---------------------------------------------------------------------

Status UringDevice::make_ring() {
  KV_ASSIGN(ring_, UringRing::create({.entries = static_cast<unsigned>(queue_depth()),
                                      .single_issuer = options_.single_issuer,
                                      .system = options_.system}));
  if (options_.register_resources) {
    files_.attach(*ring_);
    buffers_.attach(*ring_);
  }
  return {};
}

Status UringDevice::own_ring() {
  if (!ring_->usable_here()) {
    KV_CHECK(outstanding_ == 0, "a device with requests in flight was used on another thread");
    KV_TRY(make_ring());
  }
  KV_TRY(ring_->enable());
  apply_tables();
  return {};
}

void UringDevice::apply_tables() {
  files_.apply(*ring_);
  if (!buffers_.apply(*ring_)) {
    ++stats_.registration_failures;
  }
}

Result<FileHandle> UringDevice::open_impl(const std::string& name, bool create) {
  KV_ASSIGN(const FileHandle file, PosixDevice::open_impl(name, create));
  files_.want(static_cast<std::size_t>(file.value), fd_of(file));
  return file;
}

void UringDevice::close_impl(FileHandle file) {
  PosixDevice::close_impl(file);
  files_.want(static_cast<std::size_t>(file.value), -1);
  if (ring_->usable_here()) {
    files_.apply(*ring_);  // now, or the kernel keeps the file and its space
  }
}

Status UringDevice::register_buffer_impl(std::byte* buffer, std::uint64_t bytes) {
  if (Status status = buffers_.want(buffer, bytes); !status) {
    return status;
  }
  if (!ring_->usable_here()) {
    return {};  // applied, and counted if refused, when the owner submits
  }
  if (Status status = buffers_.apply(*ring_); !buffers_.holds(buffer)) {
    buffers_.drop(buffer);
    (void)buffers_.apply(*ring_);  // pieces that did go in
    return status ? Status(Error(ErrorKind::io, "register_buffer: refused"))
                  : Status(Error(status.error().kind(),
                                 status.error().message() + "; " + memlock_hint()));
  }
  return {};
}

void UringDevice::unregister_buffer_impl(std::byte* buffer) {
  buffers_.drop(buffer);
  if (ring_->usable_here()) {
    (void)buffers_.apply(*ring_);
  }
}

// --- attempts ------------------------------------------------------------------------------------

Status UringDevice::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  KV_TRY(own_ring());
  io_uring_sqe* entry = ring_->next_entry();
  if (entry == nullptr) {
    flush_submissions_impl();
    entry = ring_->next_entry();
  }
  if (entry == nullptr) {
    return Error(ErrorKind::busy, "io_uring takes no more entries");
  }
  fill_entry(*entry, request);
  entry->user_data = user_data;
  ++outstanding_;
  ++unsubmitted_;
  return {};
}

void UringDevice::fill_entry(io_uring_sqe& entry, const IoRequest& request) {
  const bool registered = files_.holds(static_cast<std::size_t>(request.file.value));
  const int fd = registered ? request.file.value : fd_of(request.file);
  const auto bytes = static_cast<unsigned>(request.bytes);
  const auto place = request.operation == IoOperation::data_sync
                         ? std::nullopt
                         : buffers_.place_of(request.buffer, request.bytes);
  stats_.registered_transfers += place ? 1 : 0;
  switch (request.operation) {
    case IoOperation::read:
      if (place) {
        io_uring_prep_read_fixed(&entry, fd, request.buffer, bytes, request.offset,
                                 static_cast<int>(*place));
      } else {
        io_uring_prep_read(&entry, fd, request.buffer, bytes, request.offset);
      }
      break;
    case IoOperation::write:
      if (place) {
        io_uring_prep_write_fixed(&entry, fd, request.buffer, bytes, request.offset,
                                  static_cast<int>(*place));
      } else {
        io_uring_prep_write(&entry, fd, request.buffer, bytes, request.offset);
      }
      break;
    case IoOperation::data_sync: io_uring_prep_fsync(&entry, fd, IORING_FSYNC_DATASYNC); break;
  }
  if (registered) {
    io_uring_sqe_set_flags(&entry, IOSQE_FIXED_FILE);
  }
}

void UringDevice::flush_submissions_impl() {
  if (unsubmitted_ == 0) {
    return;
  }
  const int status = ring_->submit();
  if (status >= 0) {
    unsubmitted_ -= std::min(unsubmitted_, static_cast<std::size_t>(status));
  } else if (!transient(-status)) {
    ring_->fail_unsubmitted(-status, completed_);
    unsubmitted_ = 0;
  }
  // What is left after a transient error goes with the next submit or wait.
}

void UringDevice::collect(std::vector<RawCompletion>& ended) {
  ring_->reap(completed_);
  for (const UringRing::Completion& completion : completed_) {
    ended.push_back({.user_data = completion.user_data, .result = completion.result});
  }
  KV_CHECK(completed_.size() <= outstanding_, "io_uring completed more than was submitted");
  outstanding_ -= completed_.size();
  completed_.clear();
}

Result<std::size_t> UringDevice::wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                           Milliseconds timeout) {
  const std::size_t before = ended.size();
  collect(ended);
  const std::size_t count = ended.size() - before;
  if ((count > 0 && count >= minimum) || outstanding_ == 0) {
    return count;
  }
  KV_CHECK(ring_->usable_here(), "a device with requests in flight was used on another thread");
  const std::size_t missing =
      std::clamp<std::size_t>(minimum - std::min(minimum, count), 1, outstanding_);
  const int status = ring_->submit_and_wait(missing, minimum == 0 ? Milliseconds(0) : timeout);
  unsubmitted_ = io_uring_sq_ready(ring_->raw());
  if (status < 0 && !transient(-status)) {
    ring_->fail_unsubmitted(-status, completed_);
    unsubmitted_ = 0;
  }
  collect(ended);
  if (status < 0 && !transient(-status) && ended.size() == before) {
    return error_from_errno(-status, "io_uring_enter");
  }
  return ended.size() - before;
}

}  // namespace kvstrata::storage
