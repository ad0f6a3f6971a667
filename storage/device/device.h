// A Device is where segment files live: a directory with asynchronous reads, writes and syncs.
// The public part checks arguments, counts, and continues short transfers; back ends (io_uring,
// psync, memory) and decorators (faulty, throttled, counting) fill in the *_impl hooks.
//
// Threads: a Device is used by one thread at a time; a store opens one per I/O thread on the same
// directory (clone()). It may move to another thread while nothing is in flight. Buffers of
// submitted requests belong to the device until their completion is handed out; destroying a
// Device waits for everything in flight first. doc/devices.md is the whole contract.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/clock.h"
#include "kvstrata/result.h"
#include "storage/device/io_request.h"
#include "storage/device/request_table.h"

namespace kvstrata::storage {

/// Counts since the device was opened.
struct DeviceStats {
  std::uint64_t reads = 0, writes = 0, syncs = 0;   ///< requests that ended, either way
  std::uint64_t read_bytes = 0, written_bytes = 0;  ///< of requests that succeeded
  std::uint64_t short_transfers = 0;                ///< continued, not errors
  std::uint64_t retries = 0;                        ///< EAGAIN, EINTR
  std::uint64_t errors = 0;                         ///< requests that failed
  std::uint64_t stale_completions = 0;              ///< matched no request in flight; ignored
  std::uint64_t registration_failures = 0;          ///< buffers that stay unregistered (memlock)
  std::uint64_t registered_transfers = 0;           ///< attempts that used a registered buffer
};

class Device {
 public:
  virtual ~Device() = default;

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Opens (or creates, mode 0600) a regular file of the directory for reads and writes. The name
  /// is bare: see valid_file_name(). Symbolic links are not followed.
  Result<FileHandle> open(const std::string& name, bool create);
  /// Closes; no request on it may be in flight. The handle's number is not used again soon.
  void close(FileHandle file);
  /// Makes [0, bytes) exist and be backed by space (fallocate); out_of_space if it can't.
  Status allocate(FileHandle file, std::uint64_t bytes);
  Result<std::uint64_t> size(FileHandle file);
  Status remove(const std::string& name);
  /// Makes creations and removals in the directory durable.
  Status sync_directory();
  /// The names of everything in the directory, sorted, things of others included.
  Result<std::vector<std::string>> list();

  /// Queues requests; at most queue_depth() may be in flight, more is `busy`. Either all are taken
  /// or none: an error here means none; what fails later ends with its own completion. A data_sync
  /// covers the writes whose completions were handed out before it was submitted, and is never
  /// retried: after its error nothing written to that file since the last good one is certain.
  Status submit(std::span<const IoRequest> requests);
  /// Waits until at least `minimum` requests ended or `timeout` passed, and appends what ended.
  /// Returns how many were appended; returns early when nothing is left in flight.
  Result<std::size_t> wait(std::vector<IoCompletion>& ended, std::size_t minimum,
                           Milliseconds timeout);
  /// submit() + wait() for one request; completions of others are kept for the next wait().
  Status run(const IoRequest& request);

  /// Pins [buffer, bytes) for faster transfers; failure is normal (memlock) and only counted:
  /// transfers work the same without. Unregister before the memory is unmapped.
  Status register_buffer(std::byte* buffer, std::uint64_t bytes);
  /// No request on the buffer may be in flight.
  void unregister_buffer(std::byte* buffer);

  /// Requests submitted whose completions were not handed out yet.
  std::size_t in_flight() const { return requests_.active() + finished_.size(); }
  virtual std::size_t queue_depth() const = 0;
  virtual std::string name() const = 0;  ///< "io_uring", "psync", "memory", "faulty(io_uring)"
  const DeviceStats& stats() const { return stats_; }

  /// Another Device on the same directory, for another thread.
  virtual Result<std::unique_ptr<Device>> clone() const = 0;

 protected:
  Device() = default;

  virtual Result<FileHandle> open_impl(const std::string& name, bool create) = 0;
  virtual void close_impl(FileHandle file) = 0;
  virtual Status allocate_impl(FileHandle file, std::uint64_t bytes) = 0;
  virtual Result<std::uint64_t> size_impl(FileHandle file) = 0;
  virtual Status remove_impl(const std::string& name) = 0;
  virtual Status sync_directory_impl() = 0;
  virtual Result<std::vector<std::string>> list_impl() = 0;
  virtual Status register_buffer_impl(std::byte* buffer, std::uint64_t bytes) = 0;
  virtual void unregister_buffer_impl(std::byte* buffer) = 0;

  /// What a back end reports of one attempt: a byte count, or a negative errno.
  struct RawCompletion {
    std::uint64_t user_data = 0;
    std::int64_t result = 0;
  };
  /// Queues one attempt, with the back end's own file handle; user_data carries generation and
  /// slot. An error means that it was not queued and will have no completion.
  virtual Status submit_impl(const IoRequest& request, std::uint64_t user_data) = 0;
  /// Starts what is queued. What can't be started ends as a completion with its errno.
  virtual void flush_submissions_impl() = 0;
  /// Appends what ended; waits for `minimum` attempts, at most `timeout`. An error means that the
  /// back end can't tell any more what became of the attempts in flight.
  virtual Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                        Milliseconds timeout) = 0;

  DeviceStats stats_;

 private:
  friend class DeviceDecorator;  // decorators pass attempts on below the public part

  struct OpenFile {
    FileHandle back_end;
    std::string name;
    std::size_t in_flight = 0;
  };

  Result<OpenFile*> find_file(FileHandle file);
  Status check_request(const IoRequest& request);
  Status check_room(std::size_t requests);
  void start(const IoRequest& request, std::optional<Status>* result);
  void start_attempt(RequestTable::Slot& slot);
  Status step(std::size_t minimum, Milliseconds timeout);
  void attempt_ended(const RawCompletion& raw);
  void attempt_failed(RequestTable::Slot& slot, int error_number);
  void attempt_moved(RequestTable::Slot& slot, std::uint64_t bytes);
  void finish(RequestTable::Slot& slot, Status status);
  std::string describe(const RequestTable::Slot& slot) const;

  std::map<std::int32_t, OpenFile> files_;
  std::int32_t next_file_ = 0;
  std::map<std::byte*, std::uint64_t> registered_;  // buffer -> bytes
  RequestTable requests_;
  std::vector<IoCompletion> finished_;  // ended, not handed out yet
  std::vector<RawCompletion> raw_;      // scratch of step()
};

/// Letters, digits, '.', '_' and '-', at most 200, and no '.' in front: it can't leave the
/// directory or hide in it.
bool valid_file_name(const std::string& name);

class UringSystem;

enum class DeviceKind : std::uint8_t { automatic, io_uring, psync };

struct DeviceOptions {
  std::string directory;
  DeviceKind kind = DeviceKind::automatic;  ///< io_uring, or psync where the kernel refuses it
  std::size_t queue_depth = 64;             ///< 1..queue_depth_max
  bool direct = true;  ///< O_DIRECT; falls back with a note where the file system refuses it
  const UringSystem* uring_system = nullptr;  ///< for tests: one that refuses; null: the kernel
};

inline constexpr std::size_t queue_depth_max = 4096;

/// Opens the best device that works; `reason` says why a fallback was taken (empty if none). A
/// kind that is asked for by name is not replaced: it works or it is `unsupported`.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options, std::string* reason);

}  // namespace kvstrata::storage
