// What the config.json of a Hugging Face model folder says, as the config of a package. Only models
// whose arithmetic doc/predictor-arithmetic.md covers are taken; what else there is, is named.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kvstrata/result.h"
#include "predictor/package_format.h"

namespace kvstrata::tool {

/// How an engine turns Q and K: the angle of pair j at position p is p · inverse_frequency[j].
struct RopeTable {
  std::vector<float> inverse_frequency;
  float amplitude = 1;   ///< cos and sin are multiplied with it (yarn)
  bool is_half = false;  ///< the engine keeps them as fp16
};

struct HubConfig {
  predictor::PackageConfig package;  ///< without fingerprint and precision
  RopeTable rope;
};

/// `corrupt` for what is no JSON or lacks a field, `unsupported` for a family, an activation or a
/// RoPE that is not covered; the message names it. `positions_max` bounds the RoPE tables.
Result<HubConfig> parse_hub_config(std::string_view json, std::uint32_t positions_max);

/// cos then sin, [positions][rotary_dim / 2] each, as the engine rounds them: to bf16 or fp16 if it
/// runs in that. The bytes of a package's section.
std::vector<std::byte> rope_section(const HubConfig& config);

}  // namespace kvstrata::tool
