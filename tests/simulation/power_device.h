// A PowerDevice passes everything on to another Device, and tells a Power of each operation first.
//
// Threads: as Device; clones share the Power. Lifetime: it owns the inner device.
#pragma once

#include <memory>

#include "storage/device/device_decorator.h"
#include "tests/simulation/power.h"

namespace kvstrata::simulation {

class PowerDevice final : public storage::DeviceDecorator {
 public:
  PowerDevice(std::unique_ptr<storage::Device> inner, Power& power)
      : DeviceDecorator(std::move(inner)), power_(power) {}

  std::string name() const override { return inner().name(); }
  Result<std::unique_ptr<storage::Device>> clone() const override {
    KV_ASSIGN(auto copy, inner().clone());
    return std::unique_ptr<storage::Device>(std::make_unique<PowerDevice>(std::move(copy), power_));
  }

 protected:
  Result<storage::FileHandle> open_impl(const std::string& name, bool create) override {
    KV_TRY(begin());
    return DeviceDecorator::open_impl(name, create);
  }
  Status allocate_impl(storage::FileHandle file, std::uint64_t bytes) override {
    KV_TRY(begin());
    return DeviceDecorator::allocate_impl(file, bytes);
  }
  Status remove_impl(const std::string& name) override {
    KV_TRY(begin());
    return DeviceDecorator::remove_impl(name);
  }
  Status sync_directory_impl() override {
    KV_TRY(begin());
    return DeviceDecorator::sync_directory_impl();
  }
  Status submit_impl(const storage::IoRequest& request, std::uint64_t user_data) override {
    KV_TRY(begin());
    return DeviceDecorator::submit_impl(request, user_data);
  }

 private:
  // A device opened on a dead machine would work otherwise: its disk forgets the cut.
  Status begin() {
    power_.operation();
    if (power_.on()) return {};
    return Error(ErrorKind::io, "the power is off");
  }

  Power& power_;
};

}  // namespace kvstrata::simulation
