// A RequestTable is what a Device remembers of its requests in flight. Each attempt of a request
// has its own number, generation and slot, so that a completion that comes late, twice or from
// nowhere matches nothing.
//
// Threads: as its Device, one at a time. Slots stay where they are for the table's life.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/device/io_request.h"

namespace kvstrata::storage {

class RequestTable {
 public:
  struct Slot {
    IoRequest request;                        ///< as the caller gave it
    std::uint64_t done_bytes = 0;             ///< moved and whole units of io_alignment
    std::uint32_t retries = 0;                ///< attempts ended by EAGAIN or EINTR
    std::uint32_t idle_attempts = 0;          ///< in a row that moved less than one unit
    std::optional<Status>* result = nullptr;  ///< where run() waits for it, else null
    std::uint64_t generation = 0;             ///< of the newest attempt
    bool active = false;                      ///< holds a request
    bool attempting = false;                  ///< its newest attempt has not ended
  };

  /// Makes room for `depth` requests; only grows, and only while nothing is active.
  void reserve(std::size_t depth);

  std::size_t active() const { return active_; }

  /// Takes a free slot for the request; there must be one.
  Slot& begin(const IoRequest& request, std::optional<Status>* result);
  /// The user_data of a new attempt of the slot; the one before must have ended.
  std::uint64_t begin_attempt(Slot& slot);
  /// The slot whose running attempt this is, which thereby ends; null for any other number.
  Slot* end_attempt(std::uint64_t user_data);
  /// Frees the slot; no attempt may be running.
  void end(Slot& slot);

  /// Whether a request in flight touches [buffer, bytes).
  bool touches(const std::byte* buffer, std::uint64_t bytes) const;

 private:
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t active_ = 0;
  std::uint64_t next_generation_ = 1;
};

}  // namespace kvstrata::storage
