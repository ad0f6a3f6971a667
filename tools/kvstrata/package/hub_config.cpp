#include "tools/kvstrata/package/hub_config.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "kvstrata/bytes.h"
#include "predictor/bf16.h"

namespace kvstrata::tool {

namespace {

using Json = nlohmann::json;

constexpr std::size_t config_bytes_max = 1 << 20;

Error unsupported(const std::string& what) {
  return {ErrorKind::unsupported, "config.json: " + what + " is not supported"};
}

/// Reads fields; remembers the first that is missing or no such number.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  bool has(const char* name) const {
    const auto at = object_.find(name);
    return at != object_.end() && !at->is_null();
  }
  std::uint32_t integer(const char* name) {
    const auto at = object_.find(name);
    if (at != object_.end() && at->is_number_unsigned() && at->get<std::uint64_t>() <= UINT32_MAX) {
      return at->get<std::uint32_t>();
    }
    return miss(name), 0;
  }
  std::uint32_t integer(const char* name, std::uint32_t otherwise) {
    return has(name) ? integer(name) : otherwise;
  }
  double number(const char* name) {
    const auto at = object_.find(name);
    if (at != object_.end() && at->is_number() && std::isfinite(at->get<double>())) {
      return at->get<double>();
    }
    return miss(name), 0;
  }
  double number(const char* name, double otherwise) { return has(name) ? number(name) : otherwise; }
  std::string text(const char* name, const std::string& otherwise = "") const {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_string() ? at->get<std::string>() : otherwise;
  }
  bool flag(const char* name, bool otherwise) const {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_boolean() ? at->get<bool>() : otherwise;
  }
  const Json* object(const char* name) const {
    const auto at = object_.find(name);
    return at != object_.end() && at->is_object() ? &*at : nullptr;
  }
  Status status() const {
    if (missing_.empty()) return {};
    return Error(ErrorKind::corrupt, "config.json: " + missing_ + " is missing or out of range");
  }

 private:
  void miss(const char* name) {
    if (missing_.empty()) missing_ = name;
  }

  const Json& object_;
  std::string missing_;
};

struct RopeFields {
  std::string type;
  double theta = 10'000;
  const Json* scaling = nullptr;
};

/// Newer files have all in rope_parameters, older ones theta beside rope_scaling.
RopeFields rope_fields(Fields& fields) {
  RopeFields rope;
  rope.theta = fields.number("rope_theta", rope.theta);
  rope.scaling = fields.object("rope_parameters");
  if (rope.scaling == nullptr) rope.scaling = fields.object("rope_scaling");
  rope.type = "default";
  if (rope.scaling != nullptr) {
    Fields scaling(*rope.scaling);
    rope.type = scaling.text("rope_type", scaling.text("type", "default"));
    rope.theta = scaling.number("rope_theta", rope.theta);
  }
  return rope;
}

/// Long wavelengths are stretched by the factor, short ones kept, those between mixed.
Status stretch_llama3(Fields scaling, std::vector<double>& inverse) {
  const double factor = scaling.number("factor"), low = scaling.number("low_freq_factor");
  const double high = scaling.number("high_freq_factor");
  const double positions = scaling.integer("original_max_position_embeddings");
  KV_TRY(scaling.status());
  if (!(factor >= 1) || !(low > 0) || !(high > low)) {
    return Error(ErrorKind::corrupt, "config.json: factors of llama3's RoPE are out of range");
  }
  for (double& frequency : inverse) {
    const double turns = positions * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = (1 - kept) * frequency / factor + kept * frequency;
  }
  return {};
}

/// The amplitude of yarn, by the words a config may use for it.
double yarn_amplitude(Fields& scaling, double factor) {
  if (scaling.has("attention_factor")) return scaling.number("attention_factor");
  const auto by = [&](double scale) {
    return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1;
  };
  const double mscale = scaling.number("mscale", 0), all = scaling.number("mscale_all_dim", 0);
  return mscale != 0 && all != 0 ? by(mscale) / by(all) : by(1);
}

Status stretch_yarn(Fields scaling, double theta, std::uint32_t positions_of_model,
                    std::vector<double>& inverse, RopeTable& rope) {
  const double factor = scaling.number("factor");
  const double fast = scaling.number("beta_fast", 32), slow = scaling.number("beta_slow", 1);
  const double positions = scaling.integer("original_max_position_embeddings", positions_of_model);
  rope.amplitude = static_cast<float>(yarn_amplitude(scaling, factor));
  KV_TRY(scaling.status());
  if (!(factor >= 1) || !(slow > 0) || !(fast >= slow) || !(theta > 1) || !(rope.amplitude > 0)) {
    return Error(ErrorKind::corrupt, "config.json: factors of yarn's RoPE are out of range");
  }
  const auto dimensions = static_cast<double>(2 * inverse.size());
  const auto dimension_of = [&](double turns) {
    return dimensions * std::log(positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const bool whole = scaling.flag("truncate", true);
  const double low = std::max(0.0, whole ? std::floor(dimension_of(fast)) : dimension_of(fast));
  double high =
      std::min(dimensions - 1, whole ? std::ceil(dimension_of(slow)) : dimension_of(slow));
  if (high == low) high += 0.001;
  for (std::size_t j = 0; j < inverse.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    inverse[j] = inverse[j] / factor * ramp + inverse[j] * (1 - ramp);
  }
  return {};
}

Result<RopeTable> rope_of(Fields& fields, std::uint32_t rotary_dim,
                          std::uint32_t positions_of_model) {
  const RopeFields rope = rope_fields(fields);
  if (!(rope.theta > 0))
    return Error(ErrorKind::corrupt, "config.json: rope_theta is not positive");
  std::vector<double> inverse(rotary_dim / 2);
  for (std::size_t j = 0; j < inverse.size(); ++j) {
    inverse[j] = std::pow(rope.theta, -2.0 * static_cast<double>(j) / rotary_dim);
  }
  RopeTable table;
  if (rope.type == "linear") {
    Fields scaling(*rope.scaling);
    const double factor = scaling.number("factor");
    KV_TRY(scaling.status());
    if (!(factor >= 1)) return Error(ErrorKind::corrupt, "config.json: RoPE's factor is below 1");
    for (double& frequency : inverse) frequency /= factor;
  } else if (rope.type == "llama3") {
    KV_TRY(stretch_llama3(Fields(*rope.scaling), inverse));
  } else if (rope.type == "yarn") {
    KV_TRY(stretch_yarn(Fields(*rope.scaling), rope.theta, positions_of_model, inverse, table));
  } else if (rope.type != "default") {
    return unsupported("RoPE of type '" + rope.type + "'");
  }
  for (const double frequency : inverse) {
    if (!(frequency >= 0 && frequency < 1e30)) {
      return Error(ErrorKind::corrupt, "config.json: an angle of RoPE is out of range");
    }
    table.inverse_frequency.push_back(static_cast<float>(frequency));
  }
  return table;
}

/// Sliding windows: of all layers or of none.
Result<std::uint32_t> window_of(Fields& fields, const Json& object, const std::string& family) {
  const bool used = family == "mistral" || fields.flag("use_sliding_window", false);
  if (!used || !fields.has("sliding_window")) return 0U;
  const auto types = object.find("layer_types");
  if (types != object.end() && types->is_array()) {
    const auto slides = std::ranges::count(*types, Json("sliding_attention"));
    if (slides == 0) return 0U;
    if (static_cast<std::size_t>(slides) != types->size()) {
      return unsupported("a model in which only some layers have a sliding window");
    }
  } else if (family != "mistral") {
    constexpr std::uint32_t usual = 28;  // where the file is silent, in transformers
    const std::uint32_t below = fields.integer("max_window_layers", usual);  // have none
    if (below >= fields.integer("num_hidden_layers")) return 0U;
    if (below != 0) return unsupported("a model in which only some layers have a sliding window");
  }
  return fields.integer("sliding_window");
}

Status check_family(const Fields& fields, const std::string& family) {
  static constexpr std::array<std::string_view, 4> families{"llama", "mistral", "qwen2", "qwen3"};
  if (std::ranges::find(families, family) == families.end()) {
    return unsupported("the model family '" + family + "' (llama, mistral, qwen2 and qwen3 are)");
  }
  if (fields.has("quantization_config")) return unsupported("a model that is quantised already");
  if (fields.text("hidden_act", "silu") != "silu") {
    return unsupported("the activation '" + fields.text("hidden_act") + "'");
  }
  if (fields.flag("attention_bias", false) || fields.flag("mlp_bias", false)) {
    return unsupported("a bias of the attention's output or of the MLP");
  }
  return {};
}

}  // namespace

Result<HubConfig> parse_hub_config(std::string_view json, std::uint32_t positions_max) {
  if (json.size() > config_bytes_max) {
    return Error(ErrorKind::corrupt, "config.json: longer than a MiB");
  }
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) return Error(ErrorKind::corrupt, "config.json: no JSON object");
  Fields fields(object);
  const std::string family = fields.text("model_type");
  KV_TRY(check_family(fields, family));
  HubConfig config;
  predictor::PackageConfig& package = config.package;
  package = {};
  package.arithmetic = predictor::Arithmetic::integers;
  package.layers = fields.integer("num_hidden_layers");
  package.hidden = fields.integer("hidden_size");
  package.intermediate = fields.integer("intermediate_size");
  package.vocab = fields.integer("vocab_size");
  package.heads = fields.integer("num_attention_heads");
  package.kv_heads = fields.integer("num_key_value_heads", package.heads);
  const std::uint32_t positions = fields.integer("max_position_embeddings");
  package.eps = static_cast<float>(fields.number("rms_norm_eps"));
  KV_TRY(fields.status());
  package.head_dim =
      fields.integer("head_dim", package.heads == 0 ? 0 : package.hidden / package.heads);
  const Json* const rope_object = fields.object("rope_parameters");
  double part = fields.number("partial_rotary_factor", 1);
  if (rope_object != nullptr) part = Fields(*rope_object).number("partial_rotary_factor", part);
  const double rotary = package.head_dim * part;
  package.rotary_dim = static_cast<std::uint32_t>(std::clamp(rotary, 0.0, 1e6)) & ~1U;
  package.positions = std::min(positions, positions_max);
  package.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(package.head_dim)));
  KV_ASSIGN(package.window, window_of(fields, object, family));
  const std::string dtype = fields.text("dtype", fields.text("torch_dtype", "bfloat16"));
  package.flags = (family == "qwen2" ? predictor::has_bias : 0) |
                  (family == "qwen3" ? predictor::has_qk_norm : 0) |
                  (dtype == "bfloat16" ? predictor::has_bf16_rope : 0);
  KV_TRY(fields.status());
  if (package.rotary_dim == 0 || package.rotary_dim > 4096) {
    return Error(ErrorKind::corrupt, "config.json: head_dim is out of range");
  }
  KV_ASSIGN(config.rope, rope_of(fields, package.rotary_dim, positions));
  config.rope.is_half = dtype == "float16";
  KV_TRY(fields.status());
  package.rope_inverse = 1 / (config.rope.amplitude * config.rope.amplitude);
  return config;
}

namespace {

/// Of numbers within ±65,504.
float nearest_half(float value) {
  constexpr int least_exponent = -14, mantissa_bits = 10;
  const int exponent = value == 0 ? least_exponent : std::max(std::ilogb(value), least_exponent);
  const float unit = std::ldexp(1.0F, exponent - mantissa_bits);
  return std::nearbyint(value / unit) * unit;
}

}  // namespace

std::vector<std::byte> rope_section(const HubConfig& config) {
  const bool bf16 = (config.package.flags & predictor::has_bf16_rope) != 0;
  std::vector<std::byte> section;
  const auto append = [&](float value) {
    if (bf16) {
      append_le(section, predictor::nearest_bf16(value));
    } else {
      append_le(section, std::bit_cast<std::uint32_t>(value));
    }
  };
  for (const bool sine : {false, true}) {
    for (std::uint32_t position = 0; position < config.package.positions; ++position) {
      for (const float frequency : config.rope.inverse_frequency) {
        const double angle = static_cast<float>(position) * frequency;  // engines round it, too
        const auto value = static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
        const float stretched = value * config.rope.amplitude;
        append(config.rope.is_half ? nearest_half(stretched) : stretched);
      }
    }
  }
  return section;
}

}  // namespace kvstrata::tool
