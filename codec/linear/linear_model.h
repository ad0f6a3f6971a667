// LinearModel: the matrices by which the linear codec predicts each scalar from the layers below
// and from the channels before it. Immutable once fitted, shared freely between threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/linear/cell_tables.h"
#include "codec/linear/layer_order.h"

namespace kvstrata::codec {

/// A payload and the position of its first token in its sequence.
struct PlacedPayload {
  ByteView bytes;
  std::uint32_t first_position = 0;
};

inline constexpr std::size_t panel_channels = 64;
inline constexpr std::uint32_t layers_below_max = 8;
inline constexpr float input_units = 24.0F;       ///< of a standard deviation, in int8
inline constexpr float error_int8_units = 16.0F;  ///< of an error's sigma, in int8

/// The dtypes that linear codes: floating ones of at most 16 bits.
constexpr bool has_linear(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::fp16 || dtype == DType::fp8_e4m3 ||
         dtype == DType::fp8_e5m2;
}

struct LinearLayer {
  std::uint32_t below = 0;  ///< layers it is predicted from: the nearest first
  // Per channel, in coding order.
  std::vector<float> mean, input_scale;   ///< of the channel as an input: (u - mean) · input_scale
  std::vector<std::int16_t> sigma_class;  ///< of its error: 2^(class / 4), the same for a pair
  std::vector<float> bias, map_scale;
  std::vector<std::int8_t> map;  ///< [channel][below · channels]
  std::vector<float> joint_scale;
  std::vector<std::int8_t> joint;     ///< [channel][channels of earlier panels]; rows of `size`
  std::vector<float> in_panel;        ///< [channel][panel_channels]
  std::int32_t scale_offset_256 = 0;  ///< the first step: (scale_slope_256 · that of the layer
  std::int32_t scale_slope_256 = 0;   ///< below + this + 128) / 256
};

struct LinearModel {
  BlockShape shape;
  std::uint32_t rotary_dim = 0;
  Rope rope;
  std::vector<LinearLayer> layers;
  CellTables tables = CellTables::fit(CellCounts{});
};

struct LinearFitOptions {
  RopeSpec rope;
  std::uint32_t layers_below = 3;
  /// So many layers from the bottom are fitted a second time, with tokens weighted by how well they
  /// are predicted. It pays most there, and each costs as much as two others.
  std::uint32_t weighted_layers = 3;
  /// When it becomes true, the fit ends with `cancelled` after the step of a layer it is at. May be
  /// null.
  const std::atomic<bool>* cancelled = nullptr;
};

/// Of memory that a fit takes at most, beside the payloads.
std::uint64_t linear_fit_bytes(const BlockShape& shape, std::uint32_t layers_below,
                               std::uint64_t tokens);

/// Fits on blocks of `shape`, several thousand tokens of them for anything good; `invalid_argument`
/// for shapes the codec does not serve (opaque, int8, fp32).
Result<LinearModel> fit_linear(const BlockShape& shape, std::span<const PlacedPayload> payloads,
                               const LinearFitOptions& options);

}  // namespace kvstrata::codec
