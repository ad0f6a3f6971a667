// A UringRing is one io_uring: set up with the best flags the kernel has, entered by one thread.
//
// Threads: with SINGLE_ISSUER the first thread that enters it owns it, and no other can enter or
// even see completions (usable_here()). Lifetime: nothing may be in the kernel when it is
// destroyed, or end() waits until nothing is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvstrata/clock.h"
#include "kvstrata/result.h"
#include "storage/device/posix_directory.h"
#include "storage/device/uring_system.h"

namespace kvstrata::storage {

struct UringRingOptions {
  unsigned entries = 64;
  bool single_issuer = true;  ///< false: as on kernels before 6.1, for tests
  const UringSystem* system = &UringSystem::kernel();
};

/// Places of a ring's table of registered files that its device may fill.
inline constexpr unsigned ring_file_places = 256;

class UringRing {
 public:
  struct Completion {
    std::uint64_t user_data = 0;
    std::int32_t result = 0;
  };

  /// Sets a ring up, disabled until a thread enters it; `unsupported` where the kernel has none.
  static Result<std::unique_ptr<UringRing>> create(const UringRingOptions& options);
  ~UringRing();
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  /// Whether the calling thread may enter and register: it is the owner, or nobody is yet.
  bool usable_here() const;
  /// Makes the calling thread the owner, the first time.
  Status enable();

  /// An entry to fill in, or null: submit() first.
  io_uring_sqe* next_entry() { return io_uring_get_sqe(&ring_); }
  /// Hands entries to the kernel; a negative errno where it took none.
  int submit() { return io_uring_submit(&ring_); }
  /// submit(), and waits for `minimum` completions or the timeout; a negative errno, -ETIME too.
  int submit_and_wait(std::size_t minimum, Milliseconds timeout);
  /// Appends what has completed; makes no system call.
  void reap(std::vector<Completion>& completed);
  /// Takes back what the kernel would not accept; it completes with `error_number` instead.
  void fail_unsubmitted(int error_number, std::vector<Completion>& completed);

  /// Closes the ring from any thread and waits until the kernel has let go of everything its
  /// requests used; false after the timeout. The ring is of no use afterwards.
  bool end(Milliseconds timeout);

  /// Whether there is an empty table of ring_file_places (since Linux 5.19).
  bool has_file_table() const { return has_file_table_; }
  io_uring* raw() { return &ring_; }
  /// Registrations are asked of it.
  const UringSystem& system() const { return system_; }

 private:
  explicit UringRing(const UringSystem& system) : system_(system) { ring_.ring_fd = -1; }

  static int set_up(UringRing& ring, unsigned entries, unsigned flags);
  bool add_witness();

  const UringSystem& system_;
  io_uring ring_ = {};
  bool has_file_table_ = false;
  bool single_issuer_ = false;
  bool enabled_ = false;
  std::uint64_t owner_ = 0;  // a number that no two threads of the process ever share
  UniqueFd witness_;         // read end of a pipe whose write end only the ring holds
};

}  // namespace kvstrata::storage
