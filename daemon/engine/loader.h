// A Loader brings blocks from disk into host memory: read, decode on a worker, check, publish.
// Blocks asked for twice are read once. Bytes in flight are bounded; the rest waits in order.
// Control thread only.
#pragma once

#include <deque>
#include <functional>

#include "daemon/engine/block_directory.h"
#include "daemon/engine/namespaces.h"

namespace kvstrata::daemon {

class Loader {
 public:
  Loader(Core& core, Namespaces& namespaces, BlockDirectory& directory)
      : core_(core), namespaces_(namespaces), directory_(directory) {}

  /// Runs `done` when the block is ready in host memory, or with why it can't be. The caller holds
  /// the block until then.
  void load(const BlockPtr& block, std::function<void(Status)> done);

 private:
  struct Decoded {
    Status status;
    ByteVector identity;
  };
  /// What a worker needs to decode a record; nothing of it changes meanwhile.
  struct Target {
    codec::BlockShape shape;
    std::shared_ptr<const CodecTables> tables;
    TableId table;
    MutableBytes payload;
  };
  void pump();
  void start(const BlockPtr& block);
  static Decoded decode(const Target& target, const storage::ReadRecord& record);
  void finish(const BlockPtr& block, Decoded decoded);

  Core& core_;
  Namespaces& namespaces_;
  BlockDirectory& directory_;
  std::deque<BlockPtr> waiting_;
  std::uint64_t bytes_in_flight_ = 0;
};

}  // namespace kvstrata::daemon
