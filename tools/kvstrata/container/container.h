// A Container is a codec file that is read: its description and tables are checked and in memory,
// its frames come one by one. Format: doc/codec-files.md. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "tools/kvstrata/container/input_file.h"
#include "tools/kvstrata/container/part.h"
#include "tools/kvstrata/container/table_sets.h"

namespace kvstrata::tool {

/// A frame as it lies in a container.
struct StoredFrame {
  const Part& part;
  std::uint64_t number;  ///< in the part
  std::uint64_t at;      ///< in the container
  codec::FrameInfo info;
};

class Container {
 public:
  /// `corrupt` for anything that is no codec file or damaged before its frames, `unsupported` for a
  /// version that is not known.
  static Result<Container> open(const std::string& path);

  const InputFile& file() const { return file_; }
  const ContainerHeader& header() const { return header_; }
  const std::vector<Part>& parts() const { return parts_; }
  const TableSets& tables() const { return tables_; }
  std::uint64_t table_bytes() const { return table_bytes_; }

  /// Visits frames in their order until one fails, after checking each one's header; then that the
  /// file ends with the last.
  Status for_each_frame(const std::function<Status(const StoredFrame&)>& visit) const;

  /// Reads a frame and decodes it into `payload`, which has the size of its shape.
  Status decode(const StoredFrame& frame, MutableBytes payload) const;

 private:
  Status read_header();
  Status read_description();
  Status read_tables(const std::vector<SetRecord>& sets);
  Error corrupt(const std::string& what) const;

  InputFile file_;
  ContainerHeader header_{};
  std::vector<Part> parts_;
  TableSets tables_;
  std::uint64_t table_bytes_ = 0;
  std::uint64_t frames_at_ = 0;
};

struct DecodeReport {
  std::uint64_t container_bytes = 0, file_bytes = 0, frames = 0;
};

/// Writes the file that `path` holds to `out`, whole and compared with its sum, or not at all.
Result<DecodeReport> decode_file(const std::string& path, const std::string& out,
                                 const ProgressCallback& progress);

}  // namespace kvstrata::tool
