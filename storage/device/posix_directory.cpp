#include "storage/device/posix_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/device/aligned_buffer.h"
#include "storage/device/io_request.h"

namespace kvstrata::storage {

namespace {

constexpr int interrupted_max = 16;
constexpr mode_t file_mode = 0600;  // prompts can be recovered from what the files hold
constexpr std::uint64_t zeros_bytes = 1_MiB;

Error errno_error(int error_number, const char* what, const std::string& name) {
  return error_from_errno(error_number, std::string(what) + " " + name);
}

Error not_regular(const std::string& name) {
  return Error(ErrorKind::permission_denied, "open " + name + ": it is not a regular file");
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

int UniqueFd::release() {
  return std::exchange(fd_, -1);
}

Result<std::shared_ptr<const PosixDirectory>> PosixDirectory::open(const std::string& path,
                                                                   bool direct, std::string* note) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return errno_error(errno, "open directory", path);
  }
  std::shared_ptr<PosixDirectory> directory(new PosixDirectory(std::move(fd), path));
  if (direct) {
    const std::string refusal = directory->refusal_of_direct();
    directory->direct_ = refusal.empty();
    if (!refusal.empty() && note != nullptr) {
      *note = "direct I/O is not available in " + path + " (" + refusal + "); using buffered I/O";
    }
  }
  return std::shared_ptr<const PosixDirectory>(std::move(directory));
}

// Tries a write of one unit to a file without a name: some file systems refuse at open, others
// only at the transfer because their blocks are larger. Not being able to try proves nothing.
std::string PosixDirectory::refusal_of_direct() const {
  const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT;
  UniqueFd probe(::openat(fd_.get(), ".", flags, file_mode));
  if (!probe.valid() && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    const std::string name = "kvstrata-probe-" + std::to_string(::getpid());
    probe = UniqueFd(::openat(fd_.get(), name.c_str(),
                              O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_DIRECT | O_NOFOLLOW,
                              file_mode));
    const int error_number = errno;
    ::unlinkat(fd_.get(), name.c_str(), 0);
    errno = error_number;
  }
  if (!probe.valid()) {
    return errno == EINVAL ? "it refuses O_DIRECT" : "";
  }
  const AlignedBuffer unit(io_alignment);
  std::ranges::fill(unit.bytes(), std::byte{0});
  if (::pwrite(probe.get(), unit.data(), io_alignment, 0) < 0 && errno == EINVAL) {
    return "it refuses transfers of 4096 bytes";
  }
  return "";
}

Result<UniqueFd> PosixDirectory::open_file(const std::string& name, bool create) const {
  // O_NONBLOCK: a pipe or device somebody put here must not stop us; regular files ignore it.
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (direct_ ? O_DIRECT : 0) |
                    (create ? O_CREAT : 0);
  UniqueFd fd(::openat(fd_.get(), name.c_str(), flags, file_mode));
  if (!fd.valid()) {
    // Links, pipes, sockets and directories refuse in as many ways; the caller is told one.
    const int error_number = errno;
    struct stat info{};
    if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(info.st_mode)) {
      return not_regular(name);
    }
    return errno_error(error_number, "open", name);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return errno_error(errno, "fstat", name);
  }
  if (!S_ISREG(info.st_mode)) {
    return not_regular(name);
  }
  return fd;
}

Status PosixDirectory::remove(const std::string& name) const {
  if (::unlinkat(fd_.get(), name.c_str(), 0) != 0) {
    return errno_error(errno, "remove", name);
  }
  return {};
}

Status PosixDirectory::sync() const {
  if (::fsync(fd_.get()) != 0) {
    return errno_error(errno, "sync of directory", path_);
  }
  return {};
}

Result<std::vector<std::string>> PosixDirectory::list() const {
  // A description of its own, so that clones don't share a position.
  const int fd = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return errno_error(errno, "list", path_);
  }
  struct Closer {
    void operator()(DIR* at) const { ::closedir(at); }
  };
  const std::unique_ptr<DIR, Closer> stream(::fdopendir(fd));
  if (!stream) {
    const int error_number = errno;
    ::close(fd);
    return errno_error(error_number, "list", path_);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      names.emplace_back(entry->d_name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return errno_error(errno, "list", path_);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status allocate_space(int fd, std::uint64_t bytes) {
  for (int attempt = 0; attempt < interrupted_max; ++attempt) {
    if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) {
      return {};
    }
    if (errno == EOPNOTSUPP) {
      return allocate_by_writing(fd, bytes);
    }
    if (errno != EINTR) {
      return error_from_errno(errno, "allocate " + std::to_string(bytes) + " bytes");
    }
  }
  return error_from_errno(EINTR, "allocate " + std::to_string(bytes) + " bytes");
}

Status allocate_by_writing(int fd, std::uint64_t bytes) {
  KV_ASSIGN(const std::uint64_t size, file_size(fd));
  KV_ASSIGN(const AlignedBuffer zeros, AlignedBuffer::take(zeros_bytes));
  std::ranges::fill(zeros.bytes(), std::byte{0});
  int interrupted = 0;
  // A last part of a unit is kept: the size of files written through a Device is whole units.
  for (std::uint64_t at = round_up(size, io_alignment); at < bytes;) {
    const std::uint64_t length = std::min(zeros_bytes, bytes - at);
    const ssize_t written = ::pwrite(fd, zeros.data(), length, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR && ++interrupted < interrupted_max) {
      continue;
    }
    const auto whole = written < 0 ? 0 : static_cast<std::uint64_t>(written) & ~(io_alignment - 1);
    if (whole == 0) {
      return error_from_errno(written < 0 ? errno : ENOSPC,
                              "allocate " + std::to_string(bytes) + " bytes");
    }
    at += whole;
  }
  return {};
}

Result<std::uint64_t> file_size(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    return error_from_errno(errno, "fstat");
  }
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace kvstrata::storage
