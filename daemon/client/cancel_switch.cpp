#include "daemon/client/cancel_switch.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace kvstrata::client {

Status CancelSwitch::open() {
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.is_open()) return error_from_errno(errno, "eventfd");
  return {};
}

void CancelSwitch::request() {
  const std::uint64_t call = call_.load();
  if (call % 2 == 0) return;
  requested_for_.store(call);
  ::eventfd_write(wake_.get(), 1);
}

void CancelSwitch::drain() const {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
}

}  // namespace kvstrata::client
