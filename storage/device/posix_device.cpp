#include "storage/device/posix_device.h"

#include <algorithm>

#include "kvstrata/check.h"

namespace kvstrata::storage {

Result<FileHandle> PosixDevice::open_impl(const std::string& name, bool create) {
  KV_ASSIGN(UniqueFd fd, directory_->open_file(name, create));
  auto place = std::find_if(files_.begin(), files_.end(),
                            [](const UniqueFd& file) { return !file.valid(); });
  if (place == files_.end()) {
    place = files_.emplace(files_.end());
  }
  *place = std::move(fd);
  return FileHandle{static_cast<std::int32_t>(place - files_.begin())};
}

void PosixDevice::close_impl(FileHandle file) {
  fd_of(file);  // checks that it is open
  files_[static_cast<std::size_t>(file.value)] = UniqueFd();
}

Status PosixDevice::allocate_impl(FileHandle file, std::uint64_t bytes) {
  return allocate_space(fd_of(file), bytes);
}

Result<std::uint64_t> PosixDevice::size_impl(FileHandle file) {
  return file_size(fd_of(file));
}

Status PosixDevice::remove_impl(const std::string& name) {
  return directory_->remove(name);
}

Status PosixDevice::sync_directory_impl() {
  return directory_->sync();
}

Result<std::vector<std::string>> PosixDevice::list_impl() {
  return directory_->list();
}

int PosixDevice::fd_of(FileHandle file) const {
  const auto place = static_cast<std::size_t>(file.value);
  KV_CHECK(file.value >= 0 && place < files_.size() && files_[place].valid(), "file is not open");
  return files_[place].get();
}

}  // namespace kvstrata::storage
