#include "storage/device/uring_system.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace kvstrata::storage {

const UringSystem& UringSystem::kernel() {
  static const UringSystem system;
  return system;
}

int UringSystem::set_up(io_uring& ring, unsigned entries, io_uring_params& params) const {
  return io_uring_queue_init_params(entries, &ring, &params);
}

// By system call: liburing 2.3 declares io_uring_enable_rings() but does not export it.
int UringSystem::enable(io_uring& ring) const {
  const long status =
      ::syscall(__NR_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  return status < 0 ? -errno : 0;
}

int UringSystem::register_files(io_uring& ring, unsigned places) const {
  return io_uring_register_files_sparse(&ring, places);
}

int UringSystem::update_file(io_uring& ring, unsigned place, int fd) const {
  return io_uring_register_files_update(&ring, place, &fd, 1);
}

int UringSystem::register_buffers(io_uring& ring, unsigned places) const {
  return io_uring_register_buffers_sparse(&ring, places);
}

int UringSystem::update_buffer(io_uring& ring, unsigned place, const iovec& piece) const {
  const __u64 no_tag = 0;
  return io_uring_register_buffers_update_tag(&ring, place, &piece, &no_tag, 1);
}

int UringSystem::make_pipe(int (&ends)[2]) const {
  return ::pipe2(ends, O_CLOEXEC) == 0 ? 0 : -errno;
}

}  // namespace kvstrata::storage
