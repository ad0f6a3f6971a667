// A Comparison is what each codec makes of one dump, by layer, side and channel, beside the
// first-order entropy. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/kvstrata/container/encode.h"

namespace kvstrata::tool {

/// One layer's K or V of all blocks of one shape, or one tensor of values.
struct ComparisonRow {
  std::string name;         ///< of the shape, or of the tensor
  std::uint32_t layer = 0;  ///< blocks only
  std::string side;         ///< "K", "V"; empty for values
  std::uint64_t scalars = 0;
  std::uint64_t raw_bytes = 0;
  std::uint64_t static_bytes = 0;  ///< encoded sub-streams; those kept raw with their raw length
  double entropy_bits = 0;         ///< of all scalars

  double raw_bits_a_scalar() const { return bits(static_cast<double>(raw_bytes) * 8); }
  double static_bits_a_scalar() const { return bits(static_cast<double>(static_bytes) * 8); }
  double entropy_bits_a_scalar() const { return bits(entropy_bits); }
  double bits(double all) const { return scalars == 0 ? 0 : all / static_cast<double>(scalars); }
};

/// Bits a scalar of every channel of one side of blocks of one shape, [layer][channel].
struct ChannelMap {
  std::string name, side;
  std::uint32_t layers = 0, channels = 0, head_dim = 0;
  std::vector<float> static_bits;   ///< of the channel's table; empty without tables
  std::vector<float> entropy_bits;  ///< of the channel alone
};

struct Comparison {
  std::string path;
  std::uint64_t file_bytes = 0;
  std::uint64_t raw_bytes = 0;     ///< of raw frames, whole
  std::uint64_t static_bytes = 0;  ///< of static frames, whole; raw where nothing gained
  std::uint64_t table_bytes = 0;
  std::vector<ComparisonRow> rows;
  std::vector<ChannelMap> maps;

  /// Encodes every frame of a dump, in memory alone, one at a time. Counts of keys take 2 KiB a
  /// channel; `too_large` where that is more than 1 GiB.
  static Result<Comparison> of(const std::string& path, const EncodeOptions& options,
                               const ProgressCallback& progress);
};

/// As JSON, for programs; with `channels` every channel's figures, in 1/1000 bit.
std::string json_of(const std::vector<Comparison>& comparisons, bool channels);

}  // namespace kvstrata::tool
