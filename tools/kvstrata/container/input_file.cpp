#include "tools/kvstrata/container/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "kvstrata/checksum.h"

namespace kvstrata::tool {

namespace {

constexpr std::uint64_t sum_bytes = 4_MiB;

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return error_from_errno(errno, "can't read " + path);
  InputFile file;
  file.path_ = path;
  file.fd_ = std::shared_ptr<const int>(new int(fd), [](const int* owned) {
    ::close(*owned);
    delete owned;
  });
  struct stat status{};
  if (::fstat(fd, &status) != 0) return error_from_errno(errno, "can't read " + path);
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorKind::invalid_argument,
                 path + " is no regular file: it is read more than once; copy it to one first");
  }
  if (status.st_size == 0) return Error(ErrorKind::invalid_argument, path + " is empty");
  file.bytes_ = static_cast<std::uint64_t>(status.st_size);
  // The time of change, which writing moves and nobody can set back.
  file.changed_s_ = status.st_ctim.tv_sec;
  file.changed_ns_ = status.st_ctim.tv_nsec;
  file.access_ = {status.st_mode & 0777, status.st_uid, status.st_gid};
  return file;
}

Status InputFile::read_at(std::uint64_t at, MutableBytes out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(*fd_, out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno(errno, "can't read " + path_);
    if (got == 0) return Error(ErrorKind::corrupt, path_ + " ends too early");
    at += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::uint64_t> InputFile::sum(
    const std::function<void(std::uint64_t done)>& progress) const {
  Xxh3Stream stream;
  ByteVector buffer(std::min(sum_bytes, bytes_));
  for (std::uint64_t at = 0; at < bytes_; at += buffer.size()) {
    const MutableBytes part = MutableBytes(buffer).first(std::min(sum_bytes, bytes_ - at));
    KV_TRY(read_at(at, part));
    stream.update(part);
    if (progress) progress(at + part.size());
  }
  return stream.digest();
}

Status InputFile::check_unchanged() const {
  struct stat status{};
  if (::fstat(*fd_, &status) != 0) return error_from_errno(errno, "can't read " + path_);
  if (static_cast<std::uint64_t>(status.st_size) == bytes_ && status.st_ctim.tv_sec == changed_s_ &&
      status.st_ctim.tv_nsec == changed_ns_) {
    return {};
  }
  return Error(ErrorKind::conflict, path_ + " changed while it was read; try again");
}

}  // namespace kvstrata::tool
