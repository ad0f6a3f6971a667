// A RecordingDevice counts what another Device is asked to do and keeps the order of it, so that a
// test can say "the data was synced before the index was written".
//
// Threads: as Device; clones share the Recording, which is safe from any thread.
// Lifetime: it owns the inner device and shares the Recording.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/device/device_decorator.h"

namespace kvstrata::storage {

/// One thing that happened. Transfers are recorded by attempt, twice: begun and ended.
struct RecordedOperation {
  enum class Kind : std::uint8_t {
    open,
    close,
    allocate,
    size,
    remove,
    sync_directory,
    list,
    read,
    write,
    data_sync,
  };

  Kind kind = Kind::open;
  bool ended = false;  ///< of a transfer: else it began
  std::string name;    ///< of the file; empty for the directory
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< asked for; of an ended transfer, moved
  bool ok = true;           ///< of one that ended, and of all that are not transfers
};

/// The log of all RecordingDevices that share it.
class Recording {
 public:
  static constexpr std::size_t operations_max = 1'000'000;

  void add(const RecordedOperation& operation);
  /// All so far; those beyond operations_max are only counted.
  std::vector<RecordedOperation> operations() const;
  /// How many of a kind began (or, for those that are not transfers, happened).
  std::uint64_t count(RecordedOperation::Kind kind) const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<RecordedOperation> operations_;
  std::map<RecordedOperation::Kind, std::uint64_t> counts_;
};

class RecordingDevice final : public DeviceDecorator {
 public:
  RecordingDevice(std::unique_ptr<Device> inner, std::shared_ptr<Recording> recording)
      : DeviceDecorator(std::move(inner)), recording_(std::move(recording)) {}

  std::string name() const override { return "recording(" + inner().name() + ")"; }
  Result<std::unique_ptr<Device>> clone() const override;

 protected:
  Result<FileHandle> open_impl(const std::string& name, bool create) override;
  void close_impl(FileHandle file) override;
  Status allocate_impl(FileHandle file, std::uint64_t bytes) override;
  Result<std::uint64_t> size_impl(FileHandle file) override;
  Status remove_impl(const std::string& name) override;
  Status sync_directory_impl() override;
  Result<std::vector<std::string>> list_impl() override;
  Status submit_impl(const IoRequest& request, std::uint64_t user_data) override;
  Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                Milliseconds timeout) override;

 private:
  std::shared_ptr<Recording> recording_;
  std::map<std::int32_t, std::string> names_;  // of open files
  std::unordered_map<std::uint64_t, RecordedOperation> running_;
};

}  // namespace kvstrata::storage
