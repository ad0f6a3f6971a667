// FaultyCalls makes system calls fail: the n-th of a kind, once or from then on. The rest of the
// file is what asks it: the kernel as the host tier, rings and buffers of frames see it, real but
// for the call that fails.
//
// Threads: safe from any; calls are numbered in the order they come. Lifetime: outlives those who
// ask.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "hostmem/memory_system.h"
#include "storage/device/uring_system.h"

namespace kvstrata::simulation {

enum class Call : std::uint8_t {
  // of the host tier
  memfd_create,
  ftruncate,
  mmap,
  madvise,
  mlock,
  add_seals,
  // of buffers for frames
  frame_memory,
  // of io_uring
  ring_setup,
  ring_enable,
  register_files,
  update_file,
  register_buffers,
  update_buffer,
  pipe,
};
inline constexpr std::size_t call_count = 14;

/// What the call may fail with.
std::span<const int> errors_of(Call call);

struct CallFault {
  Call call = Call::memfd_create;
  std::uint64_t nth = 1;  ///< from 1
  bool from_then_on = false;
  int error_number = 0;

  std::string name() const;
};

class FaultyCalls {
 public:
  void plan(const CallFault& fault);
  /// From now on no call fails, nor is counted.
  void end();
  /// Counts a call; 0 or the errno it fails with.
  int next(Call call);

  std::uint64_t count(Call call) const;
  std::uint64_t struck() const;

 private:
  mutable std::mutex mutex_;
  std::optional<CallFault> fault_;
  std::array<std::uint64_t, call_count> counts_{};
  std::uint64_t struck_ = 0;
  bool ended_ = false;
};

/// Locking is not asked of the kernel: whether it allows any differs between machines, and what is
/// locked can't be told from what is not.
class FaultyMemorySystem final : public hostmem::MemorySystem {
 public:
  explicit FaultyMemorySystem(FaultyCalls& calls) : calls_(calls) {}

  int create_memfd(const char* name, unsigned flags) const override;
  int truncate(int fd, std::uint64_t bytes) const override;
  std::byte* map(int fd, std::uint64_t bytes) const override;
  std::byte* map_nothing(std::uint64_t bytes) const override;
  int add_seals(int fd, int seals) const override;
  int advise(std::byte* at, std::uint64_t bytes, int advice) const override;
  int lock_on_fault(const std::byte* at, std::uint64_t bytes) const override;

 private:
  bool fails(Call call) const;

  FaultyCalls& calls_;
};

class FaultyUringSystem final : public storage::UringSystem {
 public:
  explicit FaultyUringSystem(FaultyCalls& calls) : calls_(calls) {}

  int set_up(io_uring& ring, unsigned entries, io_uring_params& params) const override;
  int enable(io_uring& ring) const override;
  int register_files(io_uring& ring, unsigned places) const override;
  int update_file(io_uring& ring, unsigned place, int fd) const override;
  int register_buffers(io_uring& ring, unsigned places) const override;
  int update_buffer(io_uring& ring, unsigned place, const iovec& piece) const override;
  int make_pipe(int (&ends)[2]) const override;

 private:
  FaultyCalls& calls_;
};

/// While it lives, buffers of frames are asked for; there is one at a time.
class FaultyFrameMemory {
 public:
  explicit FaultyFrameMemory(FaultyCalls& calls);
  ~FaultyFrameMemory();
  FaultyFrameMemory(const FaultyFrameMemory&) = delete;
  FaultyFrameMemory& operator=(const FaultyFrameMemory&) = delete;
};

}  // namespace kvstrata::simulation
