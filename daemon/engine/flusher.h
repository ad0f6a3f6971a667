// A Flusher makes visible blocks durable: it encodes them on background threads and appends the
// frames to the store, in the order they were added, with bounded lag. Control thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/engine/block_directory.h"
#include "daemon/engine/finder.h"
#include "daemon/engine/namespaces.h"
#include "daemon/engine/parameter_fitter.h"

namespace kvstrata::daemon {

class Flusher {
 public:
  Flusher(Core& core, Namespaces& namespaces, BlockDirectory& directory, Finder& finder,
          ParameterFitter& fitter);

  /// The sequence of a block that becomes visible now.
  Sequence take_sequence() { return {next_sequence_++}; }
  /// Takes over visible blocks, which have their sequences; they are written in this order.
  void add(std::span<const BlockPtr> blocks);
  /// True if `bytes` more may become visible before older ones are durable.
  bool has_room_for(std::uint64_t bytes) const;
  /// False: so much is waiting, with `more_bytes`, that blocks are written raw.
  bool keeps_up(std::uint64_t more_bytes = 0) const;
  /// Runs `done` when everything of `connection` up to `sequence` is durable, or with why some of
  /// it is not. none: everything added so far.
  void flush(ConnectionId connection, std::optional<Sequence> sequence, Done<Sequence> done);
  /// From its first put or FLUSH on, and until it closes, a connection's FLUSH says what of its
  /// blocks could not be written; and of others' blocks that it relies on.
  void connection_writes(ConnectionId connection) { failures_.try_emplace(connection); }
  static void rely_on(Block& block, ConnectionId connection);
  void connection_closed(ConnectionId connection) { failures_.erase(connection); }
  /// Tries again what the store had no room for.
  void tick() { pump(); }

  Sequence last_sequence() const { return {next_sequence_ - 1}; }
  std::uint64_t dirty_bytes() const { return dirty_bytes_; }
  std::uint64_t dirty_blocks() const { return dirty_.size(); }
  std::uint64_t encoding_blocks() const { return encoding_blocks_; }

 private:
  /// An encoded block on its way into the store.
  struct Encoded {
    storage::AppendRequest request;
    std::optional<std::uint32_t> first_position;    ///< once it was found out
    bool with_tables = false, with_linear = false;  ///< what might be used
    Status status;
  };
  /// Blocks that were added later, though they became visible before, don't hold it up: they could
  /// come for ever.
  struct Waiter {
    std::uint64_t sequence;
    std::uint64_t write_order;
    std::uint64_t open;  ///< blocks it waits for
    ConnectionId connection;
    Done<Sequence> done;
  };
  struct Failure {
    std::uint64_t blocks = 0;
    std::optional<Error> why;
  };

  void pump();
  bool start(const BlockPtr& block);
  void fit_tables(const BlockPtr& sample, LayerGroupState& group);
  void encode(const BlockPtr& block, const LayerGroupState& group);
  void append(const BlockPtr& block, std::shared_ptr<Encoded> encoded);
  void finish(const BlockPtr& block, Result<storage::IndexEntry> entry);
  void tell_failure(const Block& block, const Error& why);
  void erase_unwanted(const BlockPtr& block);
  void give_up(const BlockPtr& block);
  void left_flight(const Block& block);
  void clean(const BlockPtr& block);
  void answer_waiters();

  Core& core_;
  Namespaces& namespaces_;
  BlockDirectory& directory_;
  Finder& finder_;
  ParameterFitter& fitter_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t last_write_order_ = 0;
  std::deque<BlockPtr> queue_;
  std::set<std::uint64_t> dirty_;  ///< sequences not yet durable
  std::uint64_t dirty_bytes_ = 0;
  std::uint64_t bytes_in_flight_ = 0;  ///< being encoded or appended
  std::uint64_t blocks_in_flight_ = 0;
  std::uint64_t encoding_blocks_ = 0;  ///< handed to the encoders, not back yet
  std::vector<Waiter> waiters_;
  std::unordered_map<ConnectionId, Failure> failures_;  ///< since its last FLUSH
};

}  // namespace kvstrata::daemon
