// A RecordRead is one record (or chain of extents) on its way from disk: which bytes to read to
// where, and the checks before anybody sees them. The frame comes out contiguous.
//
// Threads: plain data. Lifetime: until the transfers into its buffers have ended.
#pragma once

#include <vector>

#include "storage/segment/record.h"
#include "storage/store.h"

namespace kvstrata::storage {

class RecordRead {
 public:
  /// One transfer to do: into `buffer`, from `segment`.
  struct Transfer {
    SegmentId segment;
    std::uint64_t offset = 0;
    std::byte* buffer = nullptr;
    std::uint64_t bytes = 0;
  };

  RecordRead() = default;
  RecordRead(RecordKind kind, const BlockKey& key, const IndexEntry& entry);

  /// `out_of_memory` if there was none for its buffers: then nothing can be transferred.
  const Status& memory() const { return memory_; }

  const BlockKey& key() const { return key_; }
  const IndexEntry& entry() const { return entry_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  std::uint64_t bytes() const { return entry_.record_bytes(); }

  /// Checks each header against its own checksum and against what the index says. With
  /// `check_frame` also the frame's checksum, which readers leave to the codec's finer ones.
  Result<ReadRecord> finish(bool check_frame);

 private:
  Status plan();
  Status plan_chain();
  Status check_head(ByteView head, std::size_t extent, std::uint64_t frame_start, bool check_frame,
                    RecordHeader& header) const;

  RecordKind kind_ = RecordKind::block;
  BlockKey key_;
  IndexEntry entry_;
  AlignedBuffer buffer_;         // the first record, then the frame parts of the others
  AlignedBuffer further_heads_;  // one page for each further extent
  std::vector<Transfer> transfers_;
  Status memory_;  // of plan(), which fills those before it
};

}  // namespace kvstrata::storage
