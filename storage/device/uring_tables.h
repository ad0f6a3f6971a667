// A UringFileTable and a UringBufferTable are what a ring should keep registered, and what the
// kernel took of it. A place that could not be registered is simply not used: transfers then name
// the plain descriptor or address.
//
// Threads: want(), drop() from any one thread at a time; attach() and apply() where the ring is
// usable. Lifetime: they outlive rings; a new ring is attach()ed and filled again.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "storage/device/uring_ring.h"

namespace kvstrata::storage {

class UringFileTable {
 public:
  /// Begins with the empty table of a new ring; where it has none nothing is registered.
  void attach(UringRing& ring);
  /// `fd` of an open file goes into `place` (or -1 for none) at the next apply().
  void want(std::size_t place, int fd);
  /// Brings the kernel's table up to date.
  void apply(UringRing& ring);
  /// Whether the ring can name the file by its place.
  bool holds(std::size_t place) const;

 private:
  struct Place {
    int fd = -1;
    bool current = true;  // the kernel has exactly this; else it may still hold an older file
    bool refused = false;
  };

  std::vector<Place> places_;
  bool available_ = false;
  bool changed_ = false;
};

class UringBufferTable {
 public:
  void attach(UringRing& ring);
  /// Takes a place for each piece of the region; `busy` when the table is full.
  Status want(std::byte* buffer, std::uint64_t bytes);
  void drop(std::byte* buffer);
  /// Brings the kernel's table up to date; the first refusal, if there was one. Regions that were
  /// refused are not tried again on this ring.
  Status apply(UringRing& ring);
  /// The place that covers the whole transfer, if the ring holds one.
  std::optional<unsigned> place_of(const std::byte* buffer, std::uint64_t bytes) const;
  /// Whether every piece of the region is registered.
  bool holds(std::byte* buffer) const;

 private:
  struct Place {
    iovec piece = {};     // empty: none
    bool current = true;  // as in UringFileTable
    bool refused = false;
  };
  struct Region {
    std::uint64_t bytes = 0;
    std::vector<unsigned> places;  // one a piece, in order
  };

  std::vector<Place> places_;
  std::map<const std::byte*, Region> regions_;
  bool available_ = false;
  int refused_with_ = 0;  // why there is no table
  bool changed_ = false;
};

}  // namespace kvstrata::storage
