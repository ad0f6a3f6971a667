#include "storage/device/device.h"
#include "storage/device/posix_directory.h"
#include "storage/device/psync_device.h"
#include "storage/device/uring_device.h"

namespace kvstrata::storage {

namespace {

void add_reason(std::string* reason, const std::string& text) {
  if (reason != nullptr && !text.empty()) {
    *reason += reason->empty() ? text : "; " + text;
  }
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options, std::string* reason) {
  if (reason != nullptr) {
    reason->clear();
  }
  if (options.queue_depth < 1 || options.queue_depth > queue_depth_max) {
    return Error(ErrorKind::invalid_argument, "a device's queue depth is 1 to 4096");
  }
  std::string note;
  KV_ASSIGN(auto directory, PosixDirectory::open(options.directory, options.direct, &note));
  add_reason(reason, note);
  if (options.kind != DeviceKind::psync) {
    const UringSystem* const system =
        options.uring_system != nullptr ? options.uring_system : &UringSystem::kernel();
    auto device =
        UringDevice::open(directory, {.queue_depth = options.queue_depth,
                                      .may_fall_back = options.kind == DeviceKind::automatic,
                                      .system = system});
    if (device || options.kind == DeviceKind::io_uring) {
      return device;
    }
    add_reason(reason, device.error().message() + "; using psync threads instead");
  }
  return std::unique_ptr<Device>(
      std::make_unique<PsyncDevice>(std::move(directory), options.queue_depth));
}

}  // namespace kvstrata::storage
