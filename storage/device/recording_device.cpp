#include "storage/device/recording_device.h"

namespace kvstrata::storage {

namespace {

using Kind = RecordedOperation::Kind;

Kind kind_of(IoOperation operation) {
  switch (operation) {
    case IoOperation::read: return Kind::read;
    case IoOperation::write: return Kind::write;
    case IoOperation::data_sync: return Kind::data_sync;
  }
  return Kind::read;
}

}  // namespace

void Recording::add(const RecordedOperation& operation) {
  const std::lock_guard lock(mutex_);
  counts_[operation.kind] += operation.ended ? 0 : 1;
  if (operations_.size() < operations_max) {
    operations_.push_back(operation);
  }
}

std::vector<RecordedOperation> Recording::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

std::uint64_t Recording::count(RecordedOperation::Kind kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(kind);
  return found == counts_.end() ? 0 : found->second;
}

void Recording::clear() {
  const std::lock_guard lock(mutex_);
  operations_.clear();
  counts_.clear();
}

Result<std::unique_ptr<Device>> RecordingDevice::clone() const {
  KV_ASSIGN(auto inner_clone, inner().clone());
  return std::unique_ptr<Device>(
      std::make_unique<RecordingDevice>(std::move(inner_clone), recording_));
}

Result<FileHandle> RecordingDevice::open_impl(const std::string& name, bool create) {
  Result<FileHandle> file = DeviceDecorator::open_impl(name, create);
  recording_->add({.kind = Kind::open, .name = name, .ok = file.ok()});
  if (file) {
    names_[file->value] = name;
  }
  return file;
}

void RecordingDevice::close_impl(FileHandle file) {
  DeviceDecorator::close_impl(file);
  recording_->add({.kind = Kind::close, .name = names_[file.value]});
  names_.erase(file.value);
}

Status RecordingDevice::allocate_impl(FileHandle file, std::uint64_t bytes) {
  Status status = DeviceDecorator::allocate_impl(file, bytes);
  recording_->add(
      {.kind = Kind::allocate, .name = names_[file.value], .bytes = bytes, .ok = status.ok()});
  return status;
}

Result<std::uint64_t> RecordingDevice::size_impl(FileHandle file) {
  Result<std::uint64_t> size = DeviceDecorator::size_impl(file);
  recording_->add({.kind = Kind::size, .name = names_[file.value], .ok = size.ok()});
  return size;
}

Status RecordingDevice::remove_impl(const std::string& name) {
  Status status = DeviceDecorator::remove_impl(name);
  recording_->add({.kind = Kind::remove, .name = name, .ok = status.ok()});
  return status;
}

Status RecordingDevice::sync_directory_impl() {
  Status status = DeviceDecorator::sync_directory_impl();
  recording_->add({.kind = Kind::sync_directory, .ok = status.ok()});
  return status;
}

Result<std::vector<std::string>> RecordingDevice::list_impl() {
  Result<std::vector<std::string>> names = DeviceDecorator::list_impl();
  recording_->add({.kind = Kind::list, .ok = names.ok()});
  return names;
}

Status RecordingDevice::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  KV_TRY(DeviceDecorator::submit_impl(request, user_data));
  const bool moves = request.operation != IoOperation::data_sync;
  RecordedOperation operation{.kind = kind_of(request.operation),
                              .name = names_[request.file.value],
                              .offset = moves ? request.offset : 0,
                              .bytes = moves ? request.bytes : 0};
  recording_->add(operation);
  running_[user_data] = std::move(operation);
  return {};
}

Result<std::size_t> RecordingDevice::wait_impl(std::vector<RawCompletion>& ended,
                                               std::size_t minimum, Milliseconds timeout) {
  const std::size_t before = ended.size();
  Result<std::size_t> count = DeviceDecorator::wait_impl(ended, minimum, timeout);
  for (std::size_t i = before; i < ended.size(); ++i) {
    const auto found = running_.find(ended[i].user_data);
    if (found == running_.end()) {
      continue;
    }
    RecordedOperation operation = std::move(found->second);
    running_.erase(found);
    operation.ended = true;
    operation.ok = ended[i].result >= 0;
    operation.bytes = operation.ok ? static_cast<std::uint64_t>(ended[i].result) : 0;
    recording_->add(operation);
  }
  return count;
}

}  // namespace kvstrata::storage
