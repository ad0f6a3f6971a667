// A Device is where segment files live: a directory with asynchronous reads, writes and syncs.
// The public part checks arguments, counts, and continues short transfers; back ends (io_uring,
// psync, memory) and decorators (faulty, throttled, counting) fill in the *_impl hooks.
//
// Threads: a Device is used by one thread at a time; a store opens one per I/O thread on the same
// directory (clone()). Buffers of submitted requests belong to the device until their completion
// is handed out; destroying a Device drains everything in flight first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/clock.h"
#include "kvstrata/result.h"

namespace kvstrata::storage {

/// Offsets, lengths and buffer addresses of all transfers are multiples of this (O_DIRECT).
inline constexpr std::uint64_t io_alignment = 4096;

struct FileHandle {
  std::int32_t value = -1;
  friend bool operator==(FileHandle, FileHandle) = default;
};

enum class IoOperation : std::uint8_t { read, write, data_sync };

/// One transfer. For data_sync offset and buffer are unused.
struct IoRequest {
  IoOperation operation = IoOperation::read;
  FileHandle file;
  std::uint64_t offset = 0;
  std::byte* buffer = nullptr;  ///< written by read, only read by write
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;  ///< the caller's; comes back in the completion
};

/// The end of one request: all of its bytes moved, or an error and nothing may be assumed.
struct IoCompletion {
  std::uint64_t tag = 0;
  Status status;
};

struct DeviceStats {
  std::uint64_t reads = 0, writes = 0, syncs = 0;
  std::uint64_t read_bytes = 0, written_bytes = 0;
  std::uint64_t short_transfers = 0;    ///< continued, not errors
  std::uint64_t retries = 0;            ///< EAGAIN, EINTR
  std::uint64_t errors = 0;             ///< requests that failed
  std::uint64_t stale_completions = 0;  ///< matched no request in flight; ignored
};

class Device {
 public:
  virtual ~Device() = default;

  /// Opens (or creates) a file of the directory by its bare name for O_DIRECT reads and writes.
  Result<FileHandle> open(const std::string& name, bool create);
  /// Closes; no request on it may be in flight.
  void close(FileHandle file);
  /// Makes [0, bytes) exist and be backed by space (fallocate); out_of_space if it can't.
  Status allocate(FileHandle file, std::uint64_t bytes);
  Result<std::uint64_t> size(FileHandle file);
  Status remove(const std::string& name);
  /// Makes creations and removals in the directory durable.
  Status sync_directory();
  Result<std::vector<std::string>> list();

  /// Queues requests; at most queue_depth() may be in flight, the rest is `busy` (none is taken).
  Status submit(std::span<const IoRequest> requests);
  /// Waits until at least `minimum` requests ended or `timeout` passed, and appends what ended.
  /// Returns how many were appended.
  Result<std::size_t> wait(std::vector<IoCompletion>& ended, std::size_t minimum,
                           Milliseconds timeout);
  /// submit() + wait() for one request.
  Status run(const IoRequest& request);

  /// Pins [buffer, bytes) for faster transfers; failure is normal (memlock) and only counted.
  Status register_buffer(std::byte* buffer, std::uint64_t bytes);
  void unregister_buffer(std::byte* buffer);

  std::size_t in_flight() const;
  virtual std::size_t queue_depth() const = 0;
  virtual std::string name() const = 0;  ///< "io_uring", "psync", "memory", "faulty(io_uring)"
  const DeviceStats& stats() const { return stats_; }

  /// Another Device on the same directory, for another thread.
  virtual Result<std::unique_ptr<Device>> clone() const = 0;

 protected:
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
  /// Starts one attempt; user_data carries generation and slot.
  virtual Status submit_impl(const IoRequest& request, std::uint64_t user_data) = 0;
  virtual Status flush_submissions_impl() = 0;
  virtual Result<std::size_t> wait_impl(std::vector<RawCompletion>& ended, std::size_t minimum,
                                        Milliseconds timeout) = 0;

  DeviceStats stats_;
};

enum class DeviceKind : std::uint8_t { automatic, io_uring, psync };

struct DeviceOptions {
  std::string directory;
  DeviceKind kind = DeviceKind::automatic;  ///< io_uring, or psync where the kernel refuses it
  std::size_t queue_depth = 64;
  bool direct = true;  ///< O_DIRECT; falls back with a note where the file system refuses it
};

/// Opens the best device that works; `reason` says why a fallback was taken (empty if none).
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options, std::string* reason);

}  // namespace kvstrata::storage
