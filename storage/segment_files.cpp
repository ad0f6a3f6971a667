#include "storage/segment_files.h"

#include "kvstrata/check.h"
#include "storage/mutant.h"
#include "storage/segment/segment_file.h"

namespace kvstrata::storage {

SegmentFiles::~SegmentFiles() {
  for (const auto& [segment, file] : files_) device_.close(file.handle);
}

Result<FileHandle> SegmentFiles::open(SegmentId segment) {
  if (const auto found = files_.find(segment); found != files_.end()) {
    found->second.last_use = ++uses_;
    return found->second.handle;
  }
  make_room();
  KV_ASSIGN(const FileHandle handle, device_.open(segment_file_name(segment), false));
  return remember(segment, handle);
}

bool SegmentFiles::is_lost(SegmentId segment, std::uint64_t end_bytes) {
  const Result<FileHandle> file = open(segment);
  if (!file) return file.error().kind() == ErrorKind::not_found;
  const Result<std::uint64_t> size = device_.size(*file);
  return size && *size < end_bytes;
}

Result<FileHandle> SegmentFiles::create(SegmentId segment, std::uint64_t bytes) {
  make_room();
  const std::string name = segment_file_name(segment);
  KV_ASSIGN(const FileHandle handle, device_.open(name, true));
  Status status = device_.allocate(handle, bytes);
  if (status && !mutant(Mutant::no_directory_sync)) status = device_.sync_directory();
  if (!status) {
    device_.close(handle);
    (void)device_.remove(name);
    return status.error();
  }
  return remember(segment, handle);
}

Status SegmentFiles::remove(SegmentId segment) {
  KV_CHECK(close(segment), "a segment is removed while it is used");
  Status status = device_.remove(segment_file_name(segment));
  if (!status && status.error().kind() != ErrorKind::not_found) return status;
  // Also when it is gone already: an earlier try may have failed just here.
  return device_.sync_directory();
}

bool SegmentFiles::close(SegmentId segment) {
  const auto found = files_.find(segment);
  if (found == files_.end()) return true;
  if (found->second.in_use > 0) return false;
  device_.close(found->second.handle);
  files_.erase(found);
  return true;
}

void SegmentFiles::begin_use(SegmentId segment) {
  const auto found = files_.find(segment);
  KV_CHECK(found != files_.end(), "use of a file that is not open");
  ++found->second.in_use;
}

void SegmentFiles::end_use(SegmentId segment) {
  const auto found = files_.find(segment);
  KV_CHECK(found != files_.end() && found->second.in_use > 0, "end of a use that never began");
  --found->second.in_use;
}

void SegmentFiles::make_room() {
  if (files_.size() < open_max_) return;
  auto oldest = files_.end();
  for (auto it = files_.begin(); it != files_.end(); ++it) {
    if (it->second.in_use > 0) continue;
    if (oldest == files_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
  }
  // With every file in use the bound is exceeded by at most the queue depth.
  if (oldest == files_.end()) return;
  device_.close(oldest->second.handle);
  files_.erase(oldest);
}

FileHandle SegmentFiles::remember(SegmentId segment, FileHandle handle) {
  files_[segment] = {handle, ++uses_, 0};
  return handle;
}

}  // namespace kvstrata::storage
