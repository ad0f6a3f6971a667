#include "tools/kvstrata/container/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "kvstrata/checksum.h"

namespace kvstrata::tool {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t sum_bytes = 4_MiB;

Error failed(int error_number, const std::string& path) {
  std::string what = "can't write " + path;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    what += ": the file system is full; free space or write elsewhere";
  }
  return error_from_errno(error_number, what);
}

/// Nobody reads the file who could not read what it is made of.
bool give_access(int fd, const FileAccess& access) {
  const auto group = static_cast<gid_t>(access.group);
  std::uint32_t mode = access.mode;
  if (access.group >= 0 && ::fchown(fd, static_cast<uid_t>(-1), group) != 0) mode &= ~070U;
  if (access.user >= 0 && ::geteuid() == 0 &&
      ::fchown(fd, static_cast<uid_t>(access.user), static_cast<gid_t>(-1)) != 0) {
    return false;
  }
  if (::fchmod(fd, mode) == 0) return true;
  // Some file systems know no such bits; what they give must not be wider.
  const int error = errno;
  struct stat status{};
  if (::fstat(fd, &status) == 0 && (status.st_mode & 0777U & ~mode) == 0) return true;
  errno = error;
  return false;
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path, const FileAccess& access) {
  OutputFile file;
  file.path_ = path;
  std::error_code error;
  const fs::path place = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return failed(error.value(), path);
  const fs::file_status status = fs::status(place, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return Error(ErrorKind::invalid_argument,
                 "can't write " + path + ": it is there and no regular file; name a file");
  }
  if (!fs::exists(status) && fs::is_symlink(fs::symlink_status(place, error))) {
    return Error(ErrorKind::invalid_argument,
                 "can't write " + path + ": it is a link to nothing; remove it or name a file");
  }
  file.place_ = place.string();
  // Opened before anything is replaced, so that nothing is once this fails.
  file.directory_ = ::open(place.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file.directory_ < 0) return failed(errno, path);
  std::string draft =
      (place.parent_path() / ("." + place.filename().string() + ".XXXXXX")).string();
  file.fd_ = ::mkostemp(draft.data(), O_CLOEXEC);
  if (file.fd_ < 0) return failed(errno, path);
  file.draft_ = std::move(draft);
  if (!give_access(file.fd_, access)) return failed(errno, path);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      place_(std::move(other.place_)),
      draft_(std::exchange(other.draft_, {})),
      fd_(std::exchange(other.fd_, -1)),
      directory_(std::exchange(other.directory_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (directory_ >= 0) ::close(directory_);
  if (!draft_.empty()) ::unlink(draft_.c_str());
}

Status OutputFile::write_at(std::uint64_t at, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed(errno, path_);
    at += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Result<std::uint64_t> OutputFile::sum(
    std::uint64_t bytes, const std::function<void(std::uint64_t done)>& progress) const {
  Xxh3Stream stream;
  ByteVector buffer(std::min(sum_bytes, bytes));
  std::uint64_t at = 0;
  while (at < bytes) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), bytes - at);
    const ssize_t got = ::pread(fd_, buffer.data(), wanted, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno(errno, "can't read " + path_ + " back");
    if (got == 0) {
      return Error(ErrorKind::corrupt, "what was written to " + path_ + " is shorter than stated");
    }
    stream.update(ByteView(buffer).first(static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
    if (progress) progress(at);
  }
  return stream.digest();
}

Status OutputFile::commit() {
  if (::fsync(fd_) != 0) return failed(errno, path_);
  if (::close(std::exchange(fd_, -1)) != 0) return failed(errno, path_);
  if (::rename(draft_.c_str(), place_.c_str()) != 0) return failed(errno, path_);
  draft_.clear();
  // Some file systems don't sync directories.
  if (::fsync(directory_) == 0 || errno == EINVAL) return {};
  return error_from_errno(errno, path_ + " is written, but a crash may still take its name away");
}

}  // namespace kvstrata::tool
