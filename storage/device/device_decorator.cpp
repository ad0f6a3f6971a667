#include "storage/device/device_decorator.h"

namespace kvstrata::storage {

Result<FileHandle> DeviceDecorator::open_impl(const std::string& name, bool create) {
  return inner_->open_impl(name, create);
}

void DeviceDecorator::close_impl(FileHandle file) {
  inner_->close_impl(file);
}

Status DeviceDecorator::allocate_impl(FileHandle file, std::uint64_t bytes) {
  return inner_->allocate_impl(file, bytes);
}

Result<std::uint64_t> DeviceDecorator::size_impl(FileHandle file) {
  return inner_->size_impl(file);
}

Status DeviceDecorator::remove_impl(const std::string& name) {
  return inner_->remove_impl(name);
}

Status DeviceDecorator::sync_directory_impl() {
  return inner_->sync_directory_impl();
}

Result<std::vector<std::string>> DeviceDecorator::list_impl() {
  return inner_->list_impl();
}

Status DeviceDecorator::register_buffer_impl(std::byte* buffer, std::uint64_t bytes) {
  return inner_->register_buffer_impl(buffer, bytes);
}

void DeviceDecorator::unregister_buffer_impl(std::byte* buffer) {
  inner_->unregister_buffer_impl(buffer);
}

Status DeviceDecorator::submit_impl(const IoRequest& request, std::uint64_t user_data) {
  KV_TRY(inner_->submit_impl(request, user_data));
  inner_attempts_.insert(user_data);
  return {};
}

void DeviceDecorator::flush_submissions_impl() {
  inner_->flush_submissions_impl();
}

Result<std::size_t> DeviceDecorator::wait_impl(std::vector<RawCompletion>& ended,
                                               std::size_t minimum, Milliseconds timeout) {
  const std::size_t before = ended.size();
  Result<std::size_t> count = inner_->wait_impl(ended, minimum, timeout);
  for (std::size_t i = before; i < ended.size(); ++i) {
    inner_attempts_.erase(ended[i].user_data);  // one that comes twice is passed on twice
  }
  return count;
}

}  // namespace kvstrata::storage
