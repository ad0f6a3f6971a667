#include "hostmem/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvstrata::hostmem {

namespace {

// Newer than the C library's headers.
constexpr unsigned int memfd_noexec_seal = 0x0008U;  // MFD_NOEXEC_SEAL, Linux 6.3
constexpr int seal_future_write = 0x0010;            // F_SEAL_FUTURE_WRITE, Linux 5.1
constexpr int madvise_populate_write = 23;           // MADV_POPULATE_WRITE, Linux 5.14
constexpr std::uint64_t touch_stride = 4096;

/// Systems with vm.memfd_noexec = 2 refuse a memfd that could be executed; old kernels refuse the
/// flag that says it can't.
int open_memfd(const MemorySystem& system, const std::string& name) {
  const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = system.create_memfd(name.c_str(), flags | memfd_noexec_seal);
  return fd < 0 && errno == EINVAL ? system.create_memfd(name.c_str(), flags) : fd;
}

const char* remedy_for(int error_number) {
  switch (error_number) {
    case EMFILE:
    case ENFILE:
      return "no file descriptor is left; raise RLIMIT_NOFILE (ulimit -n, LimitNOFILE= in systemd) "
             "or the chunk size";
    case EAGAIN: return "locked memory is at its limit; raise RLIMIT_MEMLOCK (ulimit -l)";
    case EPERM:
    case EACCES: return "a seccomp profile or security module forbids it";
    default:
      return "the machine or the daemon's cgroup (memory.max) has no more memory, or RLIMIT_AS "
             "(ulimit -v) or vm.max_map_count is too low; give the daemon more, or [memory] size "
             "less";
  }
}

/// Of one kind, also where the reason is another limit (descriptors, say): memory that others give
/// back helps, so callers that evict on out_of_memory do the right thing.
Error refusal(int error_number, const std::string& what) {
  return {ErrorKind::out_of_memory, "the system refuses a chunk of shared memory: " + what + ": " +
                                        std::strerror(error_number) + ": " +  // NOLINT: glibc's
                                        remedy_for(error_number)};
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const std::string& name, std::uint64_t bytes,
                                          const MemorySystem& system) {
  const int fd = open_memfd(system, name);
  if (fd < 0) return refusal(errno, "memfd_create");
  SharedMemory memory(system, fd);
  if (system.truncate(fd, bytes) != 0) return refusal(errno, "ftruncate");
  memory.data_ = system.map(fd, bytes);
  if (memory.data_ == nullptr) return refusal(errno, "mmap");
  memory.bytes_ = bytes;
  // Prompts don't belong in a core file.
  (void)system.advise(memory.data_, bytes, MADV_DONTDUMP);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : system_(other.system_),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    close();
    system_ = other.system_;
    fd_ = std::exchange(other.fd_, -1);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

SharedMemory::~SharedMemory() {
  close();
}

void SharedMemory::close() {
  if (data_ != nullptr) (void)system_->unmap(data_, bytes_);
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

Status SharedMemory::shrink(std::uint64_t bytes) {
  KV_CHECK(bytes > 0 && bytes <= bytes_, "shrink() can't grow or empty a mapping");
  if (bytes == bytes_) return {};
  // Unmap first: a mapping beyond the end of its file is a trap.
  if (system_->unmap(data_ + bytes, bytes_ - bytes) != 0) return refusal(errno, "munmap");
  bytes_ = bytes;
  if (system_->truncate(fd_, bytes) != 0) return refusal(errno, "ftruncate");
  return {};
}

Status SharedMemory::add_seals(int seals) {
  if (system_->add_seals(fd_, seals) != 0) return refusal(errno, "F_ADD_SEALS");
  return {};
}

Status SharedMemory::seal_for_readers() {
  return add_seals(F_SEAL_SHRINK | F_SEAL_GROW | seal_future_write | F_SEAL_SEAL);
}

Status SharedMemory::seal_size() {
  return add_seals(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

void SharedMemory::advise_huge_pages() {
  (void)system_->advise(data_, bytes_, MADV_HUGEPAGE);
}

bool SharedMemory::populate(std::uint64_t offset, std::uint64_t bytes) {
  KV_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "populate() beyond the mapping");
  if (system_->advise(data_ + offset, bytes, madvise_populate_write) == 0) return true;
  if (errno != EINVAL) return false;
  for (std::uint64_t at = offset; at < offset + bytes; at += touch_stride) {
    *static_cast<volatile std::byte*>(data_ + at) = std::byte{0};
  }
  return true;
}

}  // namespace kvstrata::hostmem
