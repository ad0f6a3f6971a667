// A GainWatch notices that the frames of a layer group have become longer than they were: what is
// stored now is not like that which its codec parameters were fitted on.
//
// Threads: plain data, one at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvstrata::daemon {

class GainWatch {
 public:
  /// A block was coded. True if frames have been longer by a twentieth than they were at their
  /// best, for so many blocks that a fit is worth trying; then all is measured anew. Fits that
  /// change nothing become rare: it takes four times as many blocks each time.
  bool add(std::uint64_t raw_bytes, std::uint64_t frame_bytes) {
    const double ratio = static_cast<double>(frame_bytes) / static_cast<double>(raw_bytes);
    ++blocks_;
    level_ += (ratio - level_) / static_cast<double>(std::min(blocks_, window));
    if (blocks_ < window) return false;
    least_ = blocks_ == window ? level_ : std::min(least_, level_);
    longer_ = level_ > least_ * tolerance ? longer_ + 1 : 0;
    if (longer_ < patience_) return false;
    blocks_ = longer_ = 0;
    patience_ = std::min(patience_ * 4, patience_max);
    return true;
  }
  /// New parameters are in use. Half of the patience stays: traffic that changes to and fro would
  /// have them fitted for ever.
  void parameters_changed() {
    blocks_ = longer_ = 0;
    patience_ = std::max(patience_ / 2, patience_min);
  }

 private:
  static constexpr std::uint64_t window = 16, patience_min = 32, patience_max = 1 << 16;
  static constexpr double tolerance = 1.05;

  std::uint64_t blocks_ = 0;  ///< since it began to measure
  std::uint64_t longer_ = 0;  ///< in a row
  std::uint64_t patience_ = patience_min;
  double level_ = 0;  ///< bytes of frame a byte of payload, of the last blocks
  double least_ = 0;  ///< the lowest level
};

}  // namespace kvstrata::daemon
