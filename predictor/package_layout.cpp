#include "predictor/package_layout.h"

#include <array>
#include <cmath>

#include "kvstrata/bytes.h"
#include "predictor/codes.h"

namespace kvstrata::predictor {

namespace {

constexpr std::uint32_t size_max = 1 << 20, vocab_max = 1 << 24;

Error out_of_range(const char* field) {
  return {ErrorKind::corrupt, std::string("package config: ") + field + " is out of its range"};
}

bool in_range(std::uint32_t value, std::uint32_t first, std::uint32_t last) {
  return value >= first && value <= last;
}

std::array<MatrixPlace, matrices_a_layer> shapes_of(const PackageConfig& config) {
  const std::uint32_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  return {{{.rows = q, .columns = config.hidden},
           {.rows = kv, .columns = config.hidden},
           {.rows = kv, .columns = config.hidden},
           {.rows = config.hidden, .columns = q},
           {.rows = config.intermediate, .columns = config.hidden},
           {.rows = config.intermediate, .columns = config.hidden},
           {.rows = config.hidden, .columns = config.intermediate}}};
}

}  // namespace

std::string to_string(MatrixName name) {
  static constexpr std::array<const char*, matrices_a_layer> names{
      "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  return names.at(static_cast<std::size_t>(name));
}

Status check_config(const PackageConfig& config) {
  if (config.arithmetic == Arithmetic::e4m3) {
    return Error(ErrorKind::unsupported, "package: this build does not compute in e4m3");
  }
  if (config.arithmetic != Arithmetic::integers) return out_of_range("arithmetic");
  const auto is_precision = [](std::uint8_t bits) { return bits == 8 || bits == 13; };
  if (!is_precision(config.weight_bits)) return out_of_range("weight_bits");
  if (!is_precision(config.activation_bits) || config.activation_bits < config.weight_bits) {
    return out_of_range("activation_bits");
  }
  if (config.group != 32 && config.group != 64) return out_of_range("group");
  if (!in_range(config.layers, 1, 1024)) return out_of_range("layers");
  if (!in_range(config.hidden, 8, size_max) || config.hidden % 8 != 0) {
    return out_of_range("hidden");
  }
  if (!in_range(config.intermediate, 8, size_max) || config.intermediate % 8 != 0) {
    return out_of_range("intermediate");
  }
  if (!in_range(config.vocab, 1, vocab_max)) return out_of_range("vocab");
  if (!in_range(config.kv_heads, 1, 1024)) return out_of_range("kv_heads");
  if (!in_range(config.heads, 1, 1024) || config.heads % config.kv_heads != 0) {
    return out_of_range("heads");
  }
  if (!in_range(config.head_dim, 2, 256)) return out_of_range("head_dim");
  if (!in_range(config.rotary_dim, 2, config.head_dim) || config.rotary_dim % 2 != 0) {
    return out_of_range("rotary_dim");
  }
  if (!in_range(config.positions, 64, size_max)) return out_of_range("positions");
  if (!(config.eps >= 0) || std::isinf(config.eps)) return out_of_range("eps");
  if (!(config.softmax_scale > 0) || std::isinf(config.softmax_scale)) {
    return out_of_range("softmax_scale");
  }
  if (!(config.rope_inverse > 0) || std::isinf(config.rope_inverse)) {
    return out_of_range("rope_inverse");
  }
  if ((config.flags & ~all_flags) != 0) return out_of_range("flags");
  return {};
}

PackageLayout::PackageLayout(const PackageConfig& config) : config_(config) {
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const auto shapes = shapes_of(config);
    std::vector<MatrixPlace>& places = matrices_.emplace_back(shapes.begin(), shapes.end());
    for (std::size_t i = 0; i < places.size(); ++i) {
      MatrixPlace& place = places[i];
      const auto name = static_cast<MatrixName>(i);
      const bool is_kv = name == MatrixName::k || name == MatrixName::v;
      if (layer + 1 == config.layers && !is_kv) place = {};
      place.codes_offset = codes_bytes_;
      place.scales_offset = scales_bytes_;
      const std::uint64_t rows = round_up(place.rows, tile_rows);
      const std::uint64_t row_groups = rows * groups(place);
      codes_bytes_ += row_groups * config.group * code_bytes();
      scales_bytes_ += row_groups * sizeof(float);
    }
  }
}

std::uint64_t PackageLayout::vector_numbers() const {
  const std::uint64_t q = config_.heads * config_.head_dim;
  const std::uint64_t kv = config_.kv_heads * config_.head_dim;
  return 2 * std::uint64_t{config_.hidden} + ((config_.flags & has_bias) != 0 ? q + 2 * kv : 0) +
         ((config_.flags & has_qk_norm) != 0 ? 2 * std::uint64_t{config_.head_dim} : 0);
}

std::uint64_t PackageLayout::section_bytes(SectionKind kind) const {
  switch (kind) {
    case SectionKind::config: return sizeof(PackageConfig);
    case SectionKind::embedding: return std::uint64_t{config_.vocab} * config_.hidden * 2;
    case SectionKind::rope:
      return std::uint64_t{config_.positions} * config_.rotary_dim *
             ((config_.flags & has_bf16_rope) != 0 ? 2 : 4);
    case SectionKind::vectors: return vector_numbers() * config_.layers * sizeof(float);
    case SectionKind::codes: return codes_bytes_;
    case SectionKind::scales: return scales_bytes_;
    default: return 0;
  }
}

}  // namespace kvstrata::predictor
