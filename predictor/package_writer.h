// A PackageWriter makes a package file. Sections may be written side by side, each from its first
// byte to its last; how long they are follows from the config.
//
// Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kvstrata/bytes.h"
#include "kvstrata/result.h"
#include "predictor/package_format.h"

namespace kvstrata::predictor {

class PackageWriter {
 public:
  /// Puts bytes at an offset of the file; what is never written is zero.
  using Sink = std::function<Status(std::uint64_t offset, ByteView bytes)>;

  /// `invalid_argument` for a config that check_config() refuses. Writes the section of the config.
  static Result<PackageWriter> begin(const PackageConfig& config, Sink sink);
  PackageWriter(PackageWriter&&) noexcept;
  ~PackageWriter();

  /// The next bytes of a section of weights.
  Status append(SectionKind kind, ByteView bytes);
  /// After all weights; one for each KV dtype.
  Status add_statistics(ByteView bytes);
  /// Writes the header; the file is good from then on. `invalid_argument` if a section is short.
  Status finish();

  const Hash256& weights_hash() const { return weights_hash_; }  ///< once finished

 private:
  struct Section;
  explicit PackageWriter(Sink sink);
  Status write(Section& section, ByteView bytes);

  Sink sink_;
  std::vector<std::unique_ptr<Section>> sections_;
  Hash256 weights_hash_{};
};

}  // namespace kvstrata::predictor
