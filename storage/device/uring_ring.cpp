#include "storage/device/uring_ring.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

namespace kvstrata::storage {

namespace {

// Thread ids of the system and of the library are reused, and so can't tell an owner that ended
// from a thread that began.
std::uint64_t this_thread_number() {
  static std::atomic<std::uint64_t> next{1};
  static thread_local const std::uint64_t number = next++;
  return number;
}

Error setup_error(int error_number) {
  std::string text = std::string("io_uring_setup: ") + std::strerror(error_number);
  switch (error_number) {
    case ENOSYS: text += ": the kernel has no io_uring or a seccomp profile hides it"; break;
    case EPERM: text += ": kernel.io_uring_disabled or a seccomp profile forbids it"; break;
    case ENOMEM: text += ": RLIMIT_MEMLOCK or memory is too low"; break;
    default: break;
  }
  return Error(ErrorKind::unsupported, text);
}

}  // namespace

Result<std::unique_ptr<UringRing>> UringRing::create(const UringRingOptions& options) {
  const unsigned best = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;  // Linux 6.1
  const unsigned flag_sets[] = {best, IORING_SETUP_COOP_TASKRUN /* 5.19 */, 0};
  int status = -EINVAL;
  for (const unsigned flags : flag_sets) {
    if (flags == best && !options.single_issuer) {
      continue;
    }
    std::unique_ptr<UringRing> ring(new UringRing(*options.system));
    status = set_up(*ring, options.entries, flags);
    if (status == -EINVAL) {
      continue;  // a flag this kernel does not know
    }
    if (status < 0) {
      break;
    }
    const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;  // Linux 5.11
    if ((ring->ring_.features & needed) != needed) {
      return Error(ErrorKind::unsupported, "io_uring of this kernel is too old (5.11 is needed)");
    }
    ring->has_file_table_ = ring->system_.register_files(ring->ring_, ring_file_places + 1) == 0;
    ring->single_issuer_ = flags == best;
    if (!ring->single_issuer_ || ring->add_witness()) {
      return ring;
    }
  }
  return setup_error(-status);
}

int UringRing::set_up(UringRing& ring, unsigned entries, unsigned flags) {
  io_uring_params params = {};
  // Disabled, so that the thread that uses it owns it, not the one that opens the device.
  params.flags = flags | IORING_SETUP_R_DISABLED;
  const int status = ring.system_.set_up(ring.ring_, entries, params);
  if (status < 0) {
    ring.ring_.ring_fd = -1;
  }
  return status;
}

// A ring whose only thread has ended can't be asked about its requests any more. But the kernel
// lets go of a closed ring's registered files after its last request: so one of them is a pipe,
// and its other end tells.
bool UringRing::add_witness() {
  int ends[2] = {-1, -1};
  if (!has_file_table_ || system_.make_pipe(ends) < 0) {
    return false;
  }
  witness_ = UniqueFd(ends[0]);
  const UniqueFd held_by_ring(ends[1]);
  return system_.update_file(ring_, ring_file_places, ends[1]) == 1;
}

UringRing::~UringRing() {
  if (ring_.ring_fd >= 0) {
    io_uring_queue_exit(&ring_);
  }
}

bool UringRing::end(Milliseconds timeout) {
  KV_CHECK(witness_.valid(), "only a ring with a single issuer can't be entered");
  io_uring_queue_exit(&ring_);
  ring_.ring_fd = -1;
  const MonotonicTime deadline = Clock::system().now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::system().now());
    pollfd watched = {.fd = witness_.get(), .events = 0, .revents = 0};
    const int ready =
        ::poll(&watched, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) {
      return true;
    }
    if (left <= Milliseconds(0)) {
      return false;
    }
  }
}

bool UringRing::usable_here() const {
  return !enabled_ || !single_issuer_ || owner_ == this_thread_number();
}

Status UringRing::enable() {
  if (enabled_) {
    return {};
  }
  if (const int status = system_.enable(ring_); status < 0) {
    return error_from_errno(-status, "io_uring_register: enable rings");
  }
  enabled_ = true;
  owner_ = this_thread_number();
  return {};
}

int UringRing::submit_and_wait(std::size_t minimum, Milliseconds timeout) {
  __kernel_timespec limit = {};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_nsec = timeout.count() % 1000 * 1'000'000;
  io_uring_cqe* first = nullptr;
  return io_uring_submit_and_wait_timeout(&ring_, &first, static_cast<unsigned>(minimum), &limit,
                                          nullptr);
}

void UringRing::reap(std::vector<Completion>& completed) {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_, head, entry) {
    completed.push_back({.user_data = entry->user_data, .result = entry->res});
    ++count;
  }
  io_uring_cq_advance(&ring_, count);
}

void UringRing::fail_unsubmitted(int error_number, std::vector<Completion>& completed) {
  io_uring_sq& queue = ring_.sq;
  const unsigned taken = io_uring_smp_load_acquire(queue.khead);
  for (unsigned at = taken; at != queue.sqe_tail; ++at) {
    const io_uring_sqe& entry = queue.sqes[at & queue.ring_mask];
    completed.push_back({.user_data = entry.user_data, .result = -error_number});
  }
  // The kernel looks at the tail only when we enter, so it can be taken back.
  queue.sqe_tail = taken;
  queue.sqe_head = taken;
  io_uring_smp_store_release(queue.ktail, taken);
}

}  // namespace kvstrata::storage
