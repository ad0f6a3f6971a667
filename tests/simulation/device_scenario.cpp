#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "storage/device/aligned_buffer.h"
#include "storage/device/device.h"
#include "tests/simulation/memory_faults.h"

namespace kvstrata::simulation {

namespace {

using storage::AlignedBuffer;
using storage::Device;
using storage::FileHandle;
using storage::IoOperation;

constexpr std::uint64_t transfer_bytes = 64_KiB;
constexpr int files_a_use = 2, transfers_a_file = 2;

void fill(const AlignedBuffer& buffer, int file, int transfer) {
  std::uint64_t state = static_cast<std::uint64_t>(file * transfers_a_file + transfer + 1);
  for (std::byte& byte : buffer.bytes()) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
}

class Scenario {
 public:
  Scenario(std::string directory, FaultyCalls& calls)
      : directory_(std::move(directory)), calls_(calls), rings_(calls) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  FaultOutcome run();

 private:
  Result<std::unique_ptr<Device>> open() {
    std::string reason;
    return storage::open_device(
        {.directory = directory_, .queue_depth = 8, .uring_system = &rings_}, &reason);
  }
  void write_files(Device& device, int first_file);
  void write_file(Device& device, int file, const AlignedBuffer& buffer);
  void read_files(Device& device, bool must_succeed);
  void read_file(Device& device, int file, const AlignedBuffer& buffer, bool must_succeed);
  void use(Device& device, int first_file);
  void judge(Device& device);
  void fail(std::uint64_t FaultOutcome::* figure, std::string what) {
    ++(outcome_.*figure);
    outcome_.what.push_back(std::move(what));
  }

  const std::string directory_;
  FaultyCalls& calls_;
  FaultyUringSystem rings_;
  std::map<std::pair<int, int>, bool> written_;  // and synced, by file and transfer
  int files_ = 0;
  FaultOutcome outcome_;
};

void Scenario::write_file(Device& device, int file, const AlignedBuffer& buffer) {
  const std::string name = "file-" + std::to_string(file);
  const Result<FileHandle> handle = device.open(name, true);
  if (!handle) return;
  for (int transfer = 0; transfer < transfers_a_file; ++transfer) {
    fill(buffer, file, transfer);
    const std::uint64_t offset = static_cast<std::uint64_t>(transfer) * transfer_bytes;
    const bool written =
        device.run({IoOperation::write, *handle, offset, buffer.data(), transfer_bytes, 0}).ok() &&
        device.run({IoOperation::data_sync, *handle, 0, nullptr, 0, 0}).ok();
    written_[{file, transfer}] = written;
  }
  device.close(*handle);
}

// Registered buffers come and go with the files; that one can't be registered only costs time.
void Scenario::write_files(Device& device, int first_file) {
  files_ = first_file + files_a_use;
  for (int file = first_file; file < files_; ++file) {
    const AlignedBuffer buffer(transfer_bytes);
    (void)device.register_buffer(buffer.data(), buffer.size());
    write_file(device, file, buffer);
    device.unregister_buffer(buffer.data());
  }
}

void Scenario::read_file(Device& device, int file, const AlignedBuffer& buffer, bool must_succeed) {
  const std::string name = "file-" + std::to_string(file);
  const Result<FileHandle> handle = device.open(name, false);
  const AlignedBuffer expected(transfer_bytes);
  for (int transfer = 0; transfer < transfers_a_file; ++transfer) {
    if (!written_[{file, transfer}]) continue;
    std::ranges::fill(buffer.bytes(), std::byte{0xee});
    fill(expected, file, transfer);
    const std::uint64_t offset = static_cast<std::uint64_t>(transfer) * transfer_bytes;
    const bool read =
        handle &&
        device.run({IoOperation::read, *handle, offset, buffer.data(), transfer_bytes, 0}).ok();
    if (read && !std::ranges::equal(buffer.bytes(), expected.bytes())) {
      fail(&FaultOutcome::wrong_bytes, name + " has wrong bytes");
    }
    if (!read && must_succeed) fail(&FaultOutcome::lost, name + " can't be read");
  }
  if (handle) device.close(*handle);
}

void Scenario::read_files(Device& device, bool must_succeed) {
  const AlignedBuffer buffer(transfer_bytes);
  (void)device.register_buffer(buffer.data(), buffer.size());
  for (int file = 0; file < files_; ++file) read_file(device, file, buffer, must_succeed);
  device.unregister_buffer(buffer.data());
}

void Scenario::use(Device& device, int first_file) {
  write_files(device, first_file);
  read_files(device, false);
}

void Scenario::judge(Device& device) {
  const int first_file = files_;
  write_files(device, first_file);
  for (int file = first_file; file < files_; ++file) {
    for (int transfer = 0; transfer < transfers_a_file; ++transfer) {
      if (!written_[{file, transfer}]) {
        fail(&FaultOutcome::stuck, "no write when the fault has passed");
      }
    }
  }
  read_files(device, true);
}

// One device on two threads in turns (which makes a new ring and registers anew), and a clone.
FaultOutcome Scenario::run() {
  Result<std::unique_ptr<Device>> device = open();
  if (device) {
    use(**device, 0);
    std::thread([&] { use(**device, files_); }).join();
    if (Result<std::unique_ptr<Device>> other = (*device)->clone()) use(**other, files_);
  } else {
    fail(&FaultOutcome::stuck, "no device: " + device.error().message());
  }
  outcome_.struck = calls_.struck();
  calls_.end();
  if (device) judge(**device);
  device = open();
  if (device) judge(**device);
  return outcome_;
}

}  // namespace

FaultOutcome run_device_scenario(const Place& place, FaultyCalls& calls) {
  return Scenario(place.store() + "-device", calls).run();
}

}  // namespace kvstrata::simulation
