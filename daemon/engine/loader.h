// A Loader brings blocks from disk into host memory: read, decode on workers, check, publish.
// Blocks asked for twice are read once. Bytes in flight are bounded; the rest waits in order.
// Control thread only.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

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
  /// What workers need to decode a record; nothing of it changes meanwhile.
  struct Target {
    codec::BlockShape shape;
    std::shared_ptr<const CodecTables> tables;
    TableId table;
    MutableBytes payload;
  };
  /// A record that workers decode, each a part of it. Any thread.
  struct Decoding {
    Decoding(Target decode_to, storage::ReadRecord read, std::uint32_t parts)
        : target(std::move(decode_to)), record(std::move(read)), open(parts) {}

    const Target target;
    const storage::ReadRecord record;
    std::atomic<std::uint32_t> open;  ///< parts
    std::mutex mutex;
    Status status;  ///< the first part's that failed
  };
  void pump();
  void start(const BlockPtr& block);
  void decode(const BlockPtr& block, Target target, storage::ReadRecord record);
  static Status decode_part(const Decoding& decoding, codec::FramePart part);
  void finish(const BlockPtr& block, Decoded decoded);

  Core& core_;
  Namespaces& namespaces_;
  BlockDirectory& directory_;
  std::deque<BlockPtr> waiting_;
  std::uint64_t bytes_in_flight_ = 0;
};

}  // namespace kvstrata::daemon
