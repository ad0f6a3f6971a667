// config.json from anybody: an error, or a config and RoPE tables of the size it says.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"
#include "predictor/package_layout.h"
#include "tools/kvstrata/package/hub_config.h"

using namespace kvstrata;
using namespace kvstrata::tool;

namespace {

constexpr std::array<std::string_view, 32> keys{"model_type",
                                                "num_hidden_layers",
                                                "hidden_size",
                                                "intermediate_size",
                                                "vocab_size",
                                                "num_attention_heads",
                                                "num_key_value_heads",
                                                "max_position_embeddings",
                                                "rms_norm_eps",
                                                "head_dim",
                                                "partial_rotary_factor",
                                                "rope_theta",
                                                "rope_scaling",
                                                "rope_parameters",
                                                "type",
                                                "rope_type",
                                                "factor",
                                                "low_freq_factor",
                                                "high_freq_factor",
                                                "original_max_position_embeddings",
                                                "beta_fast",
                                                "beta_slow",
                                                "mscale",
                                                "mscale_all_dim",
                                                "attention_factor",
                                                "truncate",
                                                "sliding_window",
                                                "use_sliding_window",
                                                "layer_types",
                                                "hidden_act",
                                                "attention_bias",
                                                "dtype"};
constexpr std::array<std::string_view, 32> values{"0",
                                                  "1",
                                                  "2",
                                                  "4",
                                                  "8",
                                                  "16",
                                                  "64",
                                                  "128",
                                                  "4096",
                                                  "1000003",
                                                  "-1",
                                                  "1.5",
                                                  "1e-5",
                                                  "1e30",
                                                  "1e-320",
                                                  "4294967295",
                                                  "18446744073709551616",
                                                  "null",
                                                  "true",
                                                  "false",
                                                  "[]",
                                                  "\"silu\"",
                                                  "\"llama\"",
                                                  "\"mistral\"",
                                                  "\"qwen2\"",
                                                  "\"qwen3\"",
                                                  "\"yarn\"",
                                                  "\"llama3\"",
                                                  "\"linear\"",
                                                  "\"bfloat16\"",
                                                  "[\"sliding_attention\",1]",
                                                  "{\"factor\":0}"};

/// A good file, and what two bytes each add to it, in the model's object or in that of its RoPE.
std::string file_of(const std::uint8_t* data, std::size_t size) {
  std::string model =
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":16,"intermediate_size":24,)"
      R"("vocab_size":10,"num_attention_heads":2,"max_position_embeddings":128,)"
      R"("rms_norm_eps":1e-5)";
  std::string rope = R"(,"rope_parameters":{"rope_type":"yarn","factor":4)";
  for (std::size_t i = 0; i + 1 < size; i += 2) {
    std::string& to = data[i] % 2 == 0 ? model : rope;
    to += ",\"" + std::string(keys[data[i] / 2 % keys.size()]) +
          "\":" + std::string(values[data[i + 1] % values.size()]);
  }
  return model + (size % 4 == 3 ? "" : rope + "}") + "}";
}

void check(std::string_view json) {
  const auto config = parse_hub_config(json, 64);
  if (!config) return;
  KV_CHECK(config->rope.inverse_frequency.size() == config->package.rotary_dim / 2,
           "frequencies for other dimensions");
  const bool bf16 = (config->package.flags & predictor::has_bf16_rope) != 0;
  KV_CHECK(rope_section(*config).size() ==
               std::size_t{config->package.positions} * config->package.rotary_dim * (bf16 ? 2 : 4),
           "tables of another size");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(as_text({reinterpret_cast<const std::byte*>(data), size}));
  check(file_of(data, std::min<std::size_t>(size, 64)));
  return 0;
}
