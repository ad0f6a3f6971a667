// Cells: where a scalar lies relative to what it is expected to be. The number line is cut into
// cells of one power of two, D, mirrored at 0; a scalar is its cell and, inside of it, raw bits
// that number the dtype's values there. Integers only, so that every machine says the same.
// doc/linear-codec.md.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "codec/scalar_format.h"

namespace kvstrata::codec {

/// Sigmas are powers of 2^(1/4): this many steps an octave.
inline constexpr int sigma_steps = 4;
/// sigma / D lies in [2^(3/4), 2^(7/4)) where mu allows it.
inline constexpr int sigma_offset = 3;

/// Tables by how wide the error is against a cell, and where in its cell mu lies: the finer, the
/// narrower the error is.
inline constexpr int class_min = -12, class_max = 3;
inline constexpr std::size_t phases_narrow = 16, phases_wide = 4;
inline constexpr std::size_t contexts_narrow = -class_min * phases_narrow;
inline constexpr std::size_t cell_contexts = contexts_narrow + (class_max + 1) * phases_wide;

/// `phase`: sixteenths of a cell.
constexpr std::size_t cell_context(int error_class, std::size_t phase) {
  if (error_class < 0)
    return static_cast<std::size_t>(error_class - class_min) * phases_narrow + phase;
  return contexts_narrow + static_cast<std::size_t>(error_class) * phases_wide +
         phase / (phases_narrow / phases_wide);
}
/// The class of a context.
constexpr int class_of(std::size_t context) {
  return context < contexts_narrow ? static_cast<int>(context / phases_narrow) + class_min
                                   : static_cast<int>((context - contexts_narrow) / phases_wide);
}

/// A number line of cells of 2^exponent.
struct CellGrid {
  int exponent = 0;
};

/// A finite scalar: cell, and what numbers it among the dtype's values of that cell.
struct CellPlace {
  std::int64_t cell = 0;  ///< from 0 upwards; -1 is the mirror of 0
  /// Of cells 0 and -1: times the value can be doubled and stay below D.
  std::uint32_t halvings = 0;
  std::uint32_t raw = 0;  ///< raw_bits_of() the cell
};

/// What mu and sigma say before the scalar is known. Below zero everything is mirrored, the scalar
/// too: only so does a phase mean the same on both sides.
struct Expectation {
  CellGrid grid;
  std::int64_t cell = 0;    ///< of |mu|, so not below 0
  std::size_t context = 0;  ///< below cell_contexts
  bool mirrored = false;    ///< mu is negative: the scalar is coded with its sign changed
};

/// Exponents of a floating dtype: an all-ones key is not finite in any of them but e4m3.
struct FloatRange {
  int mantissa_bits, exponent_min;  ///< the least exponent of a normal value

  constexpr explicit FloatRange(const ScalarFormat& format)
      : mantissa_bits(static_cast<int>(format.mantissa_bits)),
        exponent_min(2 - (1 << (format.key_bits - 1))) {}

  constexpr int exponent_of(std::uint32_t key) const {
    return static_cast<int>(std::max(key, 1U)) - 1 + exponent_min;
  }
};

/// Sigmas beyond 2^120 and 2^-120 are taken as that.
inline constexpr int sigma_class_max = 120 * sigma_steps;

/// Where `mu` (any float; what is not finite counts as 0) and sigma = 2^(sigma_class / 4) put it.
constexpr Expectation expect(const FloatRange& range, float mu, int sigma_class) {
  sigma_class = std::clamp(sigma_class, -sigma_class_max, sigma_class_max);
  std::uint32_t bits = std::bit_cast<std::uint32_t>(mu);
  if ((bits & 0x7f800000U) == 0x7f800000U) bits = 0;
  const std::uint32_t key = bits >> 23 & 0xff;
  const std::uint64_t significand = (bits & 0x7fffffU) | (key == 0 ? 0U : 0x800000U);
  const int exponent = static_cast<int>(std::max(key, 1U)) - 127;
  const int of_sigma = (sigma_class - sigma_offset) >> 2;
  const int of_ulp = std::max(exponent, range.exponent_min) - range.mantissa_bits;
  Expectation expectation;
  expectation.grid.exponent = std::max({of_sigma, of_ulp, range.exponent_min});
  // Sixteenths of a cell from 0. A cell is no smaller than the dtype's ulp at mu: bits are dropped.
  const int dropped = expectation.grid.exponent + 19 - exponent;
  const std::uint64_t sixteenths = dropped < 64 ? significand >> dropped : 0;
  expectation.cell = static_cast<std::int64_t>(sixteenths / phases_narrow);
  expectation.mirrored = bits >> 31 != 0;
  const int wide = std::clamp(sigma_class - sigma_offset - sigma_steps * expectation.grid.exponent,
                              class_min, class_max);
  expectation.context = cell_context(wide, sixteenths % phases_narrow);
  return expectation;
}

/// The scalar with its sign changed.
constexpr std::uint32_t mirrored(const ScalarFormat& format, std::uint32_t bits) {
  return bits ^ 1U << (format.mantissa_bits + format.key_bits);
}

/// floor(log2(cells)), of cells from 1.
constexpr int octaves_of(std::uint64_t cells) {
  return static_cast<int>(std::bit_width(cells)) - 1;
}

/// Raw bits of a scalar in `cell`, once its halvings are known if it is 0 or -1.
constexpr std::uint32_t raw_bits_of(const ScalarFormat& format, std::int64_t cell) {
  const auto away = static_cast<std::uint64_t>(cell < 0 ? -1 - cell : cell);
  if (away == 0) return format.mantissa_bits;
  const int left = static_cast<int>(format.mantissa_bits) - octaves_of(away);
  return left > 0 ? static_cast<std::uint32_t>(left) : 0;
}

/// The place of a finite scalar of `format` on a grid whose cells are no smaller than the least
/// normal value. `too_far` is set where the cell's number has no room.
constexpr CellPlace place_of(const ScalarFormat& format, std::uint32_t bits, CellGrid grid,
                             bool& too_far) {
  const FloatRange range(format);
  const std::uint32_t key = format.key(bits), mantissa = format.mantissa(bits);
  const std::uint64_t significand = mantissa | (key == 0 ? 0U : 1U << format.mantissa_bits);
  const int exponent = range.exponent_of(key);
  CellPlace place;
  const int shift = exponent - range.mantissa_bits - grid.exponent;  // of the significand, to cells
  too_far = shift > 24;
  if (too_far) return place;
  const std::uint64_t away = shift >= 0    ? significand << shift
                             : -shift < 64 ? significand >> -shift
                                           : 0;
  if (away == 0) {
    place.halvings = static_cast<std::uint32_t>(key == 0 ? grid.exponent - range.exponent_min
                                                         : grid.exponent - 1 - exponent);
  }
  const auto cell = static_cast<std::int64_t>(away);
  place.cell = format.sign(bits) != 0 ? -1 - cell : cell;
  place.raw = mantissa & ((1U << raw_bits_of(format, place.cell)) - 1);
  return place;
}

/// The scalar at a place; false if none is there.
constexpr bool scalar_at(const ScalarFormat& format, const CellPlace& place, CellGrid grid,
                         std::uint32_t& bits) {
  const FloatRange range(format);
  const std::uint32_t sign = place.cell < 0 ? 1 : 0;
  const auto away = static_cast<std::uint64_t>(place.cell < 0 ? -1 - place.cell : place.cell);
  int exponent = range.exponent_min;
  std::uint32_t mantissa = place.raw;
  bool normal = true;
  if (away != 0) {
    const int octaves = octaves_of(away);
    exponent = grid.exponent + octaves;
    const int left = range.mantissa_bits - octaves;
    if (left < 0 && (away & ((std::uint64_t{1} << -left) - 1)) != 0) return false;
    const std::uint64_t significand = left >= 0 ? away << left | place.raw : away >> -left;
    mantissa = static_cast<std::uint32_t>(significand) & ((1U << format.mantissa_bits) - 1);
  } else {
    exponent = grid.exponent - 1 - static_cast<int>(place.halvings);
    normal = exponent >= range.exponent_min;
    if (exponent < range.exponent_min - 1) return false;
  }
  const int key = normal ? exponent - range.exponent_min + 1 : 0;
  if (key >> format.key_bits != 0) return false;
  bits = format.join(static_cast<std::uint32_t>(key), sign, mantissa);
  return true;
}

}  // namespace kvstrata::codec
