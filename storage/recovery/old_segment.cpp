#include "storage/recovery/old_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace kvstrata::storage {

Result<OldSegment> OldSegment::open(const std::string& path) {
  OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return error_from_errno(errno, "opening " + path);
  struct stat state;
  if (fstat(file.get(), &state) != 0) return error_from_errno(errno, "looking at " + path);
  if (!S_ISREG(state.st_mode)) return Error(ErrorKind::corrupt, path + " is no regular file");
  OldSegment segment(std::move(file));
  segment.bytes_ = static_cast<std::uint64_t>(state.st_size);
  ByteVector page(superblock_bytes);
  if (!segment.read(0, page)) return Error(ErrorKind::corrupt, path + " has no superblock");
  auto superblock = parse_superblock(page);
  if (!superblock) return superblock.error().with_context(path);
  segment.superblock_ = *superblock;
  return segment;
}

ScanCounts OldSegment::scan(const RecordVisitor& visit) const {
  return scan_segment(
      superblock_, bytes_,
      [this](std::uint64_t offset, MutableBytes out) { return read(offset, out); }, visit);
}

bool OldSegment::read(std::uint64_t offset, MutableBytes out) const {
  while (!out.empty()) {
    const ssize_t got = pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace kvstrata::storage
