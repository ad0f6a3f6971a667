#include "hostmem/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
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
int open_memfd(const std::string& name) {
  const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create(name.c_str(), flags | memfd_noexec_seal);
  return fd < 0 && errno == EINVAL ? ::memfd_create(name.c_str(), flags) : fd;
}

/// Running out of file descriptors is running out of room: freeing a slot helps, so callers that
/// evict on out_of_memory do the right thing.
Error creation_error(int error_number) {
  if (error_number == EMFILE || error_number == ENFILE) {
    return {
        ErrorKind::out_of_memory,
        "no file descriptor left for a chunk of shared memory; raise RLIMIT_NOFILE or the chunk "
        "size"};
  }
  return error_from_errno(error_number, "memfd_create");
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const std::string& name, std::uint64_t bytes) {
  const int fd = open_memfd(name);
  if (fd < 0) return creation_error(errno);
  SharedMemory memory(fd, nullptr, 0);
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return error_from_errno(errno, "ftruncate");
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return error_from_errno(errno, "mmap of a chunk of shared memory");
  memory.data_ = static_cast<std::byte*>(at);
  memory.bytes_ = bytes;
  // Prompts don't belong in a core file.
  (void)::madvise(at, bytes, MADV_DONTDUMP);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    close();
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
  if (data_ != nullptr) ::munmap(data_, bytes_);
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

Status SharedMemory::shrink(std::uint64_t bytes) {
  KV_CHECK(bytes > 0 && bytes <= bytes_, "shrink() can't grow or empty a mapping");
  if (bytes == bytes_) return {};
  // Unmap first: a mapping beyond the end of its file is a trap.
  if (::munmap(data_ + bytes, bytes_ - bytes) != 0) return error_from_errno(errno, "munmap");
  bytes_ = bytes;
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return error_from_errno(errno, "ftruncate");
  return {};
}

Status SharedMemory::add_seals(int seals) {
  if (::fcntl(fd_, F_ADD_SEALS, seals) != 0) return error_from_errno(errno, "F_ADD_SEALS");
  return {};
}

Status SharedMemory::seal_for_readers() {
  return add_seals(F_SEAL_SHRINK | F_SEAL_GROW | seal_future_write | F_SEAL_SEAL);
}

Status SharedMemory::seal_size() {
  return add_seals(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

void SharedMemory::advise_huge_pages() {
  (void)::madvise(data_, bytes_, MADV_HUGEPAGE);
}

bool SharedMemory::populate(std::uint64_t offset, std::uint64_t bytes) {
  KV_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "populate() beyond the mapping");
  if (::madvise(data_ + offset, bytes, madvise_populate_write) == 0) return true;
  if (errno != EINVAL) return false;
  for (std::uint64_t at = offset; at < offset + bytes; at += touch_stride) {
    *static_cast<volatile std::byte*>(data_ + at) = std::byte{0};
  }
  return true;
}

}  // namespace kvstrata::hostmem
