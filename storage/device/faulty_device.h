// A FaultyDevice makes another Device fail, fall short, lie or lag as its FaultScript says. The
// faults are made below the public part, as a kernel would make them.
//
// Threads: as Device; clones share the script. Lifetime: it owns the inner device. Completions
// that are held when it is destroyed are dropped; their transfers have ended.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "storage/device/device_decorator.h"
#include "storage/device/fault_script.h"

namespace kvstrata::storage {

class FaultyDevice final : public DeviceDecorator {
 public:
  FaultyDevice(std::unique_ptr<Device> inner, std::shared_ptr<FaultScript> script)
      : DeviceDecorator(std::move(inner)), script_(std::move(script)) {}

  std::string name() const override { return "faulty(" + inner().name() + ")"; }
  Result<std::unique_ptr<Device>> clone() const override;

 protected:
  Result<FileHandle> open_impl(const std::string& name, bool create) override;
  Status allocate_impl(FileHandle file, std::uint64_t bytes) override;
  Result<std::uint64_t> size_impl(FileHandle file) override;
  Status remove_impl(const std::string& name) override;
  Status sync_directory_impl() override;
  Result<std::vector<std::string>> list_impl() override;
  Status register_buffer_impl(std::byte* buffer, std::uint64_t bytes) override;
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override;
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

 private:
  struct Struck {  // an attempt under a fault, in the inner device
    Fault fault;
    IoRequest request;
    std::uint64_t bytes = 0;        // to report
    std::vector<std::byte> beyond;  // what the buffer held past them
    std::uint64_t releases_seen = 0;
  };
  struct Held {
    RawCompletion completion;
    std::uint32_t completions_left = 0;  // 1: due; 0: when released
    std::uint64_t releases_seen = 0;
  };

  Status metadata(FaultTarget target, const std::string& what);
  Status submit_cut(const IoRequest& request, std::uint64_t user_data, const Fault& fault);
  void complete(RawCompletion completion, std::vector<RawCompletion>& ended);
  void hand_out(const RawCompletion& completion, std::vector<RawCompletion>& ended);
  void apply(const Struck& struck, RawCompletion& completion);
  void let_go(std::vector<RawCompletion>& ended);

  std::shared_ptr<FaultScript> script_;
  std::map<std::uint64_t, Struck> struck_;  // by user_data
  std::vector<Held> held_;
  std::vector<RawCompletion> made_up_;  // ends of attempts the inner device never saw
  std::vector<RawCompletion> scratch_;
};

}  // namespace kvstrata::storage
