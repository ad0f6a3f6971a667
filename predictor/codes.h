// Codes are integers with a binary32 scale for each group of them along a row: how weights and
// activations enter products. Activations lie row by row; a row of weights is an output, and
// weights lie in tiles of 16 rows, so that a vector of outputs is summed without looking across.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "predictor/arithmetic.h"

namespace kvstrata::predictor {

inline constexpr std::uint32_t largest_group = 64;

/// codes[row][groups · group], scales[row][groups]; what `columns` leaves of the last group is 0.
struct CodeView {
  const std::int16_t* codes = nullptr;
  const float* scales = nullptr;
  std::uint32_t rows = 0, columns = 0, group = largest_group;

  std::uint32_t groups() const { return (columns + group - 1) / group; }
  const std::int16_t* row(std::size_t r) const { return codes + r * std::size_t{groups()} * group; }
  const float* row_scales(std::size_t r) const { return scales + r * groups(); }
};

inline constexpr std::uint32_t tile_rows = 16;

/// codes[tile][groups · group / 2][16 rows][2], scales[tile][groups][16 rows]; what there is no row
/// or column for is 0. Code: int8 or int16.
template <typename Code>
struct TileView {
  const Code* codes = nullptr;
  const float* scales = nullptr;
  std::uint32_t rows = 0, columns = 0, group = largest_group;

  std::uint32_t groups() const { return (columns + group - 1) / group; }
  std::uint32_t tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  /// 16, or what is left for the last tile.
  std::size_t rows_of(std::size_t t) const {
    return std::min<std::size_t>(tile_rows, rows - t * tile_rows);
  }
  const Code* tile(std::size_t t) const {
    return codes + t * groups() * std::size_t{group} * tile_rows;
  }
  const float* tile_scales(std::size_t t) const { return scales + t * groups() * tile_rows; }
  Code at(std::size_t row, std::size_t column) const {
    return tile(row / tile_rows)[(column / 2 * tile_rows + row % tile_rows) * 2 + column % 2];
  }
  float scale(std::size_t row, std::size_t g) const {
    return tile_scales(row / tile_rows)[g * tile_rows + row % tile_rows];
  }
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

  CodeView view() const {
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

/// One tile of weights, quantised row by row. Rows that are not set are 0.
template <typename Code>
class CodeTile {
 public:
  CodeTile(std::uint32_t columns, std::uint32_t group, float top)
      : row_(1, columns, group, top),
        codes_(row_.codes().size() * tile_rows),
        scales_(row_.scales().size() * tile_rows) {}

  /// False if `v` holds a NaN or an infinity.
  bool set(std::size_t row, std::span<const float> v) {
    const bool finite = row_.set(0, v);
    for (std::size_t i = 0; i < row_.codes().size(); ++i) {
      codes_[(i / 2 * tile_rows + row) * 2 + i % 2] = static_cast<Code>(row_.codes()[i]);
    }
    for (std::size_t g = 0; g < row_.scales().size(); ++g) {
      scales_[g * tile_rows + row] = row_.scales()[g];
    }
    return finite;
  }
  void clear() {
    std::ranges::fill(codes_, Code{0});
    std::ranges::fill(scales_, 0.0F);
  }
  std::span<const Code> codes() const { return codes_; }
  std::span<const float> scales() const { return scales_; }

 private:
  CodeRows row_;
  std::vector<Code> codes_;
  std::vector<float> scales_;
};

}  // namespace kvstrata::predictor
