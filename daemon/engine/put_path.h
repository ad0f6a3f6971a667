// A PutPath takes new blocks in: staging slots for local clients, one copy that also hashes, the
// answer per block. Control thread only; copies run on workers.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/engine/disk_gate.h"
#include "daemon/engine/finder.h"
#include "daemon/engine/flusher.h"

namespace kvstrata::daemon {

class PutPath {
 public:
  PutPath(Core& core, Namespaces& namespaces, BlockDirectory& directory, Finder& finder,
          Flusher& flusher, DiskGate& gate);

  Result<Reserved> reserve(const Caller& caller, NamespaceId ns, std::uint16_t group,
                           std::uint32_t slots, std::uint64_t bytes);
  void commit(const Caller& caller, NewBlocks blocks, std::vector<std::uint64_t> slots,
              Done<Committed> done);
  void put(const Caller& caller, NewBlocks blocks, std::shared_ptr<const ByteVector> values,
           std::uint64_t values_offset, Done<Committed> done);
  std::uint32_t abort(const Caller& caller, const std::vector<std::uint64_t>& slots);
  /// Takes back its reservations, and its staging memory as soon as no copy reads it.
  void connection_closed(ConnectionId connection);
  void expire();

  std::uint64_t reserved_bytes() const { return reserved_bytes_; }
  std::size_t reservations() const { return reservations_.size(); }

 private:
  struct Reservation {
    hostmem::Slot slot;
    ConnectionId owner;
    std::uint64_t bytes = 0;
    MonotonicTime deadline;
  };
  struct Batch;
  struct Incoming;

  Status describe(Batch& batch, NewBlocks blocks) const;
  Status check_lengths(const Batch& batch) const;
  void start(const std::shared_ptr<Batch>& batch);
  void place_one(const std::shared_ptr<Batch>& batch, std::size_t index,
                 const std::optional<storage::IndexEntry>& stored);
  void compare(const std::shared_ptr<Batch>& batch, std::size_t index, const BlockPtr& block,
               bool on_disk);
  std::optional<std::uint32_t> first_position_of(const Batch& batch,
                                                 const Incoming& incoming) const;
  void fill(const std::shared_ptr<Batch>& batch, std::size_t index);
  void forget_expired(const BlockPtr& block);
  void write_again(Batch& batch, const BlockPtr& block);
  void announce(const Block& block) const;
  void settle(const std::shared_ptr<Batch>& batch, std::size_t index,
              std::optional<ErrorKind> status);
  void copy_ended(ConnectionId connection);
  void give_back(const Reservation& reservation);

  Core& core_;
  Namespaces& namespaces_;
  BlockDirectory& directory_;
  Finder& finder_;
  Flusher& flusher_;
  DiskGate& gate_;
  std::unordered_map<std::uint64_t, Reservation> reservations_;
  std::unordered_map<ConnectionId, std::uint32_t> copying_;  ///< batches in progress
  std::unordered_set<ConnectionId> closed_while_copying_;
  std::uint64_t next_slot_ = 1;
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace kvstrata::daemon
