// A UringSystem is the kernel as a ring sees it: the calls that set it up and register what it
// uses, each of which may be refused. kernel() makes them; tests derive one that refuses some.
// Transfers don't go through it.
//
// Threads: safe from any, as far as the ring is. Lifetime: outlives the rings.
#pragma once

#include <liburing.h>

namespace kvstrata::storage {

/// Each method returns what liburing's function does: a negative errno on failure.
class UringSystem {
 public:
  virtual ~UringSystem() = default;

  virtual int set_up(io_uring& ring, unsigned entries, io_uring_params& params) const;
  virtual int enable(io_uring& ring) const;
  virtual int register_files(io_uring& ring, unsigned places) const;
  /// The number of places that were updated: 1.
  virtual int update_file(io_uring& ring, unsigned place, int fd) const;
  virtual int register_buffers(io_uring& ring, unsigned places) const;
  virtual int update_buffer(io_uring& ring, unsigned place, const iovec& piece) const;
  virtual int make_pipe(int (&ends)[2]) const;

  static const UringSystem& kernel();
};

}  // namespace kvstrata::storage
