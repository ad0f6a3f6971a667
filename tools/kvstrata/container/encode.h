// Writing codec files: a dump's parts are encoded frame by frame. Format: doc/codec-files.md.
#pragma once

#include <cstdint>
#include <string>

#include "codec/codec.h"
#include "tools/kvstrata/container/dump.h"
#include "tools/kvstrata/container/table_sets.h"

namespace kvstrata::tool {

/// Encodes frames of one dump, one at a time, in memory that it keeps. One thread at a time.
class FrameEncoder {
 public:
  /// Both outlive it.
  FrameEncoder(const Dump& dump, const TableSets& tables) : dump_(dump), tables_(tables) {}

  /// The frame; it is there until the next call.
  Result<ByteView> encode(const Part& part, std::uint64_t frame);
  /// Decodes what encode() gave last, of the same part and number, and compares; `internal` if it
  /// is not what it was made of.
  Status check(const Part& part, std::uint64_t frame, ByteView encoded);
  /// What the last frame was made of.
  ByteView payload() const { return payload_; }

 private:
  const Dump& dump_;
  const TableSets& tables_;
  ByteVector payload_, frame_, check_;
};

struct EncodeOptions {
  DumpOptions dump;
  std::string tables;             ///< a file to take tables from; empty: they are fitted
  std::uint32_t fit_blocks = 16;  ///< of each shape
  bool raw = false;               ///< no tables: every frame is raw
};

/// Tables as the options want them; parts of the dump name theirs thereafter.
Result<TableSets> tables_for(Dump& dump, const EncodeOptions& options,
                             const ProgressCallback& progress);

struct EncodeReport {
  std::uint64_t file_bytes = 0, container_bytes = 0, table_bytes = 0;
  std::uint64_t frames = 0, static_frames = 0;
  std::uint64_t untabled_parts = 0;  ///< that tables could serve, but no set is theirs
};

/// Writes a codec file of `path` to `out`, whole or not at all. `conflict` if the input changes
/// meanwhile.
Result<EncodeReport> encode_file(const std::string& path, const std::string& out,
                                 const EncodeOptions& options, const ProgressCallback& progress);

}  // namespace kvstrata::tool
