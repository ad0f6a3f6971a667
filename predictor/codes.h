// Codes are integers with a binary32 scale for each group of them along a row: how weights and
// activations enter products. A CodeView is somebody's memory, a CodeRows is its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "predictor/arithmetic.h"

namespace kvstrata::predictor {

inline constexpr std::uint32_t largest_group = 64;

/// codes[row][groups · group], scales[row][groups]; what `columns` leaves of the last group is 0.
template <typename Code>
struct CodeView {
  const Code* codes = nullptr;
  const float* scales = nullptr;
  std::uint32_t rows = 0, columns = 0, group = largest_group;

  std::uint32_t groups() const { return (columns + group - 1) / group; }
  const Code* row(std::size_t r) const { return codes + r * groups() * group; }
  const float* row_scales(std::size_t r) const { return scales + r * groups(); }
};

/// Rows of activations, quantised one after the other.
class CodeRows {
 public:
  CodeRows(std::uint32_t rows, std::uint32_t columns, std::uint32_t group, float top)
      : columns_(columns),
        group_(group),
        groups_((columns + group - 1) / group),
        top_(top),
        codes_(std::size_t{rows} * groups_ * group),
        scales_(std::size_t{rows} * groups_) {}

  /// False if `v` holds a NaN or an infinity.
  bool set(std::size_t row, std::span<const float> v) {
    bool finite = true;
    for (std::size_t g = 0; g < groups_; ++g) {
      const std::size_t first = g * group_;
      const std::span<const float> part =
          v.subspan(first, std::min<std::size_t>(group_, v.size() - first));
      scales_[row * groups_ + g] = quantise(
          part, top_, std::span(codes_).subspan((row * groups_ + g) * group_, group_), finite);
    }
    return finite;
  }

  CodeView<std::int16_t> view() const {
    return {codes_.data(), scales_.data(), static_cast<std::uint32_t>(scales_.size() / groups_),
            columns_, group_};
  }
  std::span<const std::int16_t> codes() const { return codes_; }
  std::span<const float> scales() const { return scales_; }

 private:
  std::uint32_t columns_, group_, groups_;
  float top_;
  std::vector<std::int16_t> codes_;
  std::vector<float> scales_;
};

}  // namespace kvstrata::predictor
