#include "storage/device/memory_device.h"

#include <algorithm>

#include "kvstrata/check.h"

namespace kvstrata::storage {

MemoryDevice::MemoryDevice(std::shared_ptr<MemoryDisk> disk, std::size_t queue_depth)
    : disk_(std::move(disk)), queue_depth_(queue_depth), epoch_(disk_->epoch()) {}

MemoryDevice::~MemoryDevice() {
  std::for_each(attempts_.begin(), attempts_.end(),
                [this](const Attempt& attempt) { acknowledge(attempt); });
}

Result<std::unique_ptr<Device>> MemoryDevice::clone() const {
  return std::unique_ptr<Device>(std::make_unique<MemoryDevice>(disk_, queue_depth_));
}

Result<FileHandle> MemoryDevice::open_impl(const std::string& name, bool create) {
  KV_ASSIGN(MemoryDisk::FilePointer opened, disk_->open(epoch_, name, create));
  auto place = std::find(files_.begin(), files_.end(), nullptr);
  if (place == files_.end()) {
    place = files_.emplace(files_.end());
  }
  *place = std::move(opened);
  return FileHandle{static_cast<std::int32_t>(place - files_.begin())};
}

void MemoryDevice::close_impl(FileHandle handle) {
  file(handle);  // checks that it is open
  files_[static_cast<std::size_t>(handle.value)].reset();
}

MemoryFile& MemoryDevice::file(FileHandle handle) const {
  const auto place = static_cast<std::size_t>(handle.value);
  KV_CHECK(handle.value >= 0 && place < files_.size() && files_[place], "file is not open");
  return *files_[place];
}

Status MemoryDevice::allocate_impl(FileHandle handle, std::uint64_t bytes) {
  return disk_->allocate(epoch_, file(handle), bytes);
}

Result<std::uint64_t> MemoryDevice::size_impl(FileHandle handle) {
  return disk_->size(epoch_, file(handle));
}

Status MemoryDevice::remove_impl(const std::string& name) {
  return disk_->remove(epoch_, name);
}

Status MemoryDevice::sync_directory_impl() {
  return disk_->sync_directory(epoch_);
}

Result<std::vector<std::string>> MemoryDevice::list_impl() {
  return disk_->list(epoch_);
}

Status MemoryDevice::register_buffer_impl(std::byte*, std::uint64_t) {
  return Error(ErrorKind::unsupported, "memory has no registered buffers");
}

void MemoryDevice::unregister_buffer_impl(std::byte*) {}

Status MemoryDevice::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  MemoryFile& target = file(request.file);
  Attempt attempt{.completion = {.user_data = user_data}, .offset = request.offset};
  std::int64_t& result = attempt.completion.result;
  switch (request.operation) {
    case IoOperation::read:
      result = disk_->read(epoch_, target, request.offset, {request.buffer, request.bytes});
      break;
    case IoOperation::write:
      result = disk_->write(epoch_, target, request.offset, {request.buffer, request.bytes});
      if (result > 0) {
        attempt.written = files_[static_cast<std::size_t>(request.file.value)];
      }
      break;
    case IoOperation::data_sync: result = disk_->data_sync(epoch_, target); break;
  }
  attempts_.push_back(std::move(attempt));
  return {};
}

Result<std::size_t> MemoryDevice::wait_impl(std::vector<RawCompletion>& ended, std::size_t,
                                            Milliseconds) {
  for (const Attempt& attempt : attempts_) {
    acknowledge(attempt);
    ended.push_back(attempt.completion);
  }
  const std::size_t count = attempts_.size();
  attempts_.clear();
  return count;
}

void MemoryDevice::acknowledge(const Attempt& attempt) {
  if (attempt.written) {
    disk_->acknowledge(epoch_, *attempt.written, attempt.offset,
                       static_cast<std::uint64_t>(attempt.completion.result));
  }
}

}  // namespace kvstrata::storage
