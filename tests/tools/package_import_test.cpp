// A Hugging Face folder as a package: what its numbers become, and what is refused by name.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "files.h"
#include "predictor/bf16.h"
#include "predictor/package.h"
#include "tools/kvstrata/package/hub_model.h"

using namespace kvstrata;
using namespace kvstrata::test;
using namespace kvstrata::tool;

namespace {

constexpr std::uint32_t hidden = 16, intermediate = 24, vocab = 10, layers = 2;
constexpr std::uint32_t heads = 2, kv_heads = 1, head_dim = 8;

std::string config_json(const std::string& family = "llama", const std::string& more = "") {
  return R"({"model_type":")" + family + R"(","num_hidden_layers":2,"hidden_size":16,)" +
         R"("intermediate_size":24,"vocab_size":10,"num_attention_heads":2,)" +
         R"("num_key_value_heads":1,"max_position_embeddings":128,"rms_norm_eps":1e-5,)" +
         R"("rope_theta":10000.0,"hidden_act":"silu","dtype":"bfloat16")" + more + "}";
}

/// Name and shape of each tensor of the family.
std::vector<std::pair<std::string, std::vector<std::uint32_t>>> tensors_of(
    const std::string& family) {
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> all{
      {"model.embed_tokens.weight", {vocab, hidden}}, {"model.norm.weight", {hidden}}};
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::uint32_t q = heads * head_dim, kv = kv_heads * head_dim;
    const auto add = [&](const std::string& name, std::vector<std::uint32_t> shape) {
      all.emplace_back(prefix + name, std::move(shape));
    };
    add("input_layernorm.weight", {hidden});
    add("post_attention_layernorm.weight", {hidden});
    add("self_attn.q_proj.weight", {q, hidden});
    add("self_attn.k_proj.weight", {kv, hidden});
    add("self_attn.v_proj.weight", {kv, hidden});
    add("self_attn.o_proj.weight", {hidden, q});
    add("mlp.gate_proj.weight", {intermediate, hidden});
    add("mlp.up_proj.weight", {intermediate, hidden});
    add("mlp.down_proj.weight", {hidden, intermediate});
    if (family == "qwen2") {
      add("self_attn.q_proj.bias", {q});
      add("self_attn.k_proj.bias", {kv});
      add("self_attn.v_proj.bias", {kv});
    }
    if (family == "qwen3") {
      add("self_attn.q_norm.weight", {head_dim});
      add("self_attn.k_norm.weight", {head_dim});
    }
  }
  return all;
}

/// A model folder, of which a test may spoil a tensor.
class HubFolder {
 public:
  struct Made {
    std::string shape;
    std::string dtype = "BF16";
    ByteVector bytes;
  };

  explicit HubFolder(const std::string& family = "llama", const std::string& json = "")
      : json_(json.empty() ? config_json(family) : json) {
    Tensors random;
    for (const auto& [name, shape] : tensors_of(family)) {
      std::size_t count = 1;
      std::string text;
      for (const std::uint32_t size : shape) {
        count *= size;
        text += (text.empty() ? "" : ",") + std::to_string(size);
      }
      tensors[name] = {text, "BF16", random.smooth(count)};
    }
  }

  std::map<std::string, Made> tensors;
  bool sharded = false;

  Result<ByteVector> import(const ImportOptions& options = {}) {
    write_file(folder_.at("config.json"), as_bytes(json_));
    Tensors files[2];
    std::size_t number = 0;
    for (const auto& [name, made] : tensors) {
      files[sharded ? number++ % 2 : 0].add(name, made.dtype, made.shape, made.bytes);
    }
    write_file(folder_.at("model-1.safetensors"), files[0].file());
    if (sharded) write_file(folder_.at("model-2.safetensors"), files[1].file());
    ByteVector package;
    const auto sink = [&](std::uint64_t offset, ByteView bytes) -> Status {
      package.resize(std::max<std::size_t>(package.size(), offset + bytes.size()));
      std::ranges::copy(bytes, package.begin() + static_cast<std::ptrdiff_t>(offset));
      return {};
    };
    KV_ASSIGN(auto writer, import_model(folder_.at(""), options, sink, {}));
    KV_TRY(writer.finish());
    return package;
  }

  float number(const std::string& name, std::size_t index) const {
    const std::byte* at = tensors.at(name).bytes.data() + 2 * index;
    return predictor::float_of_bf16(load_le<std::uint16_t>(at));
  }

 private:
  Folder folder_;
  std::string json_;
};

ByteVector imported(HubFolder& hub, const ImportOptions& options = {}) {
  auto package = hub.import(options);
  REQUIRE_MESSAGE(package.ok(), (package.ok() ? "" : package.error().message()));
  return *std::move(package);
}

/// Why a folder is refused.
Error refusal(const std::function<void(HubFolder&)>& spoil) {
  HubFolder hub;
  spoil(hub);
  const auto package = hub.import();
  REQUIRE_FALSE(package.ok());
  return package.error();
}

Error refusal_of_json(const std::string& json) {
  const auto config = parse_hub_config(json, 1024);
  REQUIRE_FALSE(config.ok());
  return config.error();
}

bool names(const Error& error, const std::string& what) {
  return error.message().find(what) != std::string::npos;
}

std::vector<float> frequencies(const std::string& rope) {
  const auto config = parse_hub_config(
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":4096,"intermediate_size":64,)"
      R"("vocab_size":10,"num_attention_heads":32,"num_key_value_heads":8,)"
      R"("max_position_embeddings":131072,"rms_norm_eps":1e-5,"head_dim":128,)"
      R"("rope_parameters":{)" +
          rope + "}}",
      1024);
  REQUIRE_MESSAGE(config.ok(), (config.ok() ? "" : config.error().message()));
  return config->rope.inverse_frequency;
}

}  // namespace

TEST_CASE("Imported numbers are the model's, weights rounded to codes") {
  for (const std::string family : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (const Preset preset : {Preset::fast, Preset::balanced, Preset::max}) {
      CAPTURE(family);
      HubFolder hub(family);
      hub.sharded = preset == Preset::balanced;
      const ByteVector bytes = imported(hub, {.preset = preset});
      const auto package = predictor::Package::parse(bytes, nullptr);
      REQUIRE_MESSAGE(package.ok(), (package.ok() ? "" : package.error().message()));
      const predictor::Model& model = (*package)->model();
      CHECK(model.config.activation_top == (preset == Preset::fast ? 127 : 4095));
      for (std::size_t i = 0; i < model.embedding.size(); ++i) {
        CHECK(predictor::float_of_bf16(model.embedding[i]) ==
              hub.number("model.embed_tokens.weight", i));
      }
      const predictor::LayerWeights& layer = model.layers[0];
      CHECK(layer.input_norm[3] == hub.number("model.layers.0.input_layernorm.weight", 3));
      CHECK(layer.q_bias.empty() == (family != "qwen2"));
      if (family == "qwen2") {
        CHECK(layer.v_bias[5] == hub.number("model.layers.0.self_attn.v_proj.bias", 5));
      }
      CHECK(layer.k_norm.empty() == (family != "qwen3"));
      if (family == "qwen3") {
        CHECK(layer.k_norm[7] == hub.number("model.layers.0.self_attn.k_norm.weight", 7));
      }
      const auto check_matrix = [&](const predictor::Weights& weights, const std::string& name) {
        std::visit(
            [&](const auto& view) {
              for (std::size_t r = 0; r < view.rows; ++r) {
                for (std::size_t c = 0; c < view.columns; ++c) {
                  const float scale = view.scale(r, c / view.group);
                  const float exact = hub.number(name, r * view.columns + c);
                  CHECK(std::fabs(view.at(r, c) * scale - exact) <= scale * 0.51F);
                }
              }
            },
            weights);
      };
      check_matrix(layer.down, "model.layers.0.mlp.down_proj.weight");
      check_matrix(model.layers[1].v, "model.layers.1.self_attn.v_proj.weight");
      CHECK(std::visit([](const auto& view) { return view.rows; }, model.layers[1].o) == 0);
    }
  }
}

TEST_CASE("One model is one package, however it is cut into files; another model is another") {
  HubFolder hub;
  const ByteVector whole = imported(hub);
  hub.sharded = true;
  CHECK((imported(hub) == whole));
  hub.tensors["model.norm.weight"].bytes[0] ^= std::byte{1};  // not used, but another model
  CHECK((imported(hub) != whole));
}

TEST_CASE("Numbers of other dtypes are read") {
  HubFolder hub;
  auto& norm = hub.tensors["model.layers.0.input_layernorm.weight"];
  norm.dtype = "F32";
  norm.bytes.clear();
  for (std::uint32_t i = 0; i < hidden; ++i) {
    append_le(norm.bytes, std::bit_cast<std::uint32_t>(1 + 0.1F * static_cast<float>(i)));
  }
  auto& other = hub.tensors["model.layers.1.input_layernorm.weight"];
  other.dtype = "F16";
  other.bytes.clear();
  for (const int half : {0x3c00, 0xc000, 0x0001, 0x8400, 0x7bff, 0x3555, 0, 0x8000}) {
    append_le(other.bytes, static_cast<std::uint16_t>(half));
    append_le(other.bytes, static_cast<std::uint16_t>(half));
  }
  const ByteVector bytes = imported(hub);
  const auto package = predictor::Package::parse(bytes, nullptr);
  REQUIRE(package.ok());
  const auto& all = (*package)->model().layers;
  CHECK(all[0].input_norm[7] == 1 + 0.1F * 7);
  CHECK(all[1].input_norm[0] == 1);
  CHECK(all[1].input_norm[2] == -2);
  CHECK(all[1].input_norm[4] == 0x1p-24F);
  CHECK(all[1].input_norm[6] == -0x1p-14F);
  CHECK(all[1].input_norm[8] == 65504);
}

TEST_CASE("Angles of RoPE are those of transformers, for each variant") {
  const auto check = [](const std::vector<float>& values, const std::map<std::size_t, double>& of) {
    for (const auto& [j, exact] : of) {
      CAPTURE(j);
      CHECK(std::fabs(static_cast<double>(values[j]) / exact - 1) < 3e-7);
    }
  };
  check(frequencies(R"("rope_type":"llama3","rope_theta":500000.0,"factor":8.0,)"
                    R"("low_freq_factor":1.0,"high_freq_factor":4.0,)"
                    R"("original_max_position_embeddings":8192)"),
        {{1, 0x1.a11582p-1},
         {29, 0x1.1bfa0cp-9},
         {30, 0x1.67a23ap-10},
         {36, 0x1.46831ap-14},
         {63, 0x1.4985fep-22}});
  check(frequencies(R"("rope_type":"yarn","rope_theta":1000000.0,"factor":4.0,)"
                    R"("original_max_position_embeddings":32768)"),
        {{1, 0x1.9c975ap-1},
         {29, 0x1.705780p-10},
         {30, 0x1.17040ep-10},
         {37, 0x1.107c70p-13},
         {63, 0x1.4d1c98p-22}});
  check(frequencies(R"("rope_type":"linear","rope_theta":10000.0,"factor":2.0)"),
        {{0, 0.5}, {1, 0x1.bb5faep-2}, {63, 0x1.e459c4p-15}});
  const auto yarn =
      parse_hub_config(config_json("llama", R"(,"rope_scaling":{"type":"yarn","factor":4.0,)"
                                            R"("original_max_position_embeddings":32})"),
                       1024);
  REQUIRE(yarn.ok());
  CHECK(yarn->rope.amplitude == doctest::Approx(1.138629436111989));
  CHECK(yarn->package.rope_inverse == doctest::Approx(1 / (1.138629436 * 1.138629436)));
}

TEST_CASE("What a folder lacks, or has otherwise, is named") {
  const std::string k_proj = "model.layers.1.self_attn.k_proj.weight";
  CHECK(names(refusal([&](HubFolder& hub) { hub.tensors.erase(k_proj); }), k_proj));
  CHECK(names(refusal([&](HubFolder& hub) { hub.tensors[k_proj].shape = "16,8"; }), "shape"));
  CHECK(names(refusal([&](HubFolder& hub) { hub.tensors[k_proj].dtype = "I16"; }), "I16"));
  const Error none = refusal([&](HubFolder& hub) {
    hub.tensors[k_proj].bytes[1] = std::byte{0x7f};
    hub.tensors[k_proj].bytes[0] = std::byte{0xc0};
  });
  CHECK(none.kind() == ErrorKind::corrupt);
  CHECK(names(none, "NaN"));
  const auto sink = [](std::uint64_t, ByteView) -> Status { return {}; };
  const Folder empty;
  CHECK(import_model(empty.at(""), {}, sink, {}).error().kind() == ErrorKind::not_found);
  write_file(empty.at("config.json"), as_bytes(config_json()));
  CHECK(names(import_model(empty.at(""), {}, sink, {}).error(), "safetensors"));
}

TEST_CASE("A config.json that is none, or of a model that is not covered, is refused") {
  CHECK(refusal_of_json("").kind() == ErrorKind::corrupt);
  CHECK(refusal_of_json("[1]").kind() == ErrorKind::corrupt);
  CHECK(refusal_of_json(std::string(100'000, '[')).kind() == ErrorKind::corrupt);
  CHECK(names(refusal_of_json(config_json("gemma3")), "gemma3"));
  CHECK(names(refusal_of_json(R"({"model_type":"llama"})"), "num_hidden_layers"));
  for (const std::string more :
       {R"(,"hidden_size":-5)", R"(,"hidden_size":1e99)", R"(,"hidden_size":"16")",
        R"(,"num_attention_heads":0)", R"(,"head_dim":4294967295)", R"(,"rope_theta":-1)",
        R"(,"rope_theta":1e-320)", R"(,"rope_scaling":{"type":"linear","factor":0})",
        R"(,"rope_scaling":{"type":"llama3","factor":8})"}) {
    CAPTURE(more);
    CHECK(refusal_of_json(config_json("llama", more)).kind() == ErrorKind::corrupt);
  }
  const std::map<std::string, std::string> not_covered{
      {R"(,"rope_scaling":{"type":"longrope"})", "longrope"},
      {R"(,"attention_bias":true)", "bias"},
      {R"(,"hidden_act":"gelu")", "gelu"},
      {R"(,"quantization_config":{})", "quantised"},
      {R"(,"use_sliding_window":true,"sliding_window":64,"max_window_layers":1)", "window"}};
  for (const auto& [more, what] : not_covered) {
    const Error error = refusal_of_json(config_json("llama", more));
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(names(error, what));
  }
  const auto half =
      parse_hub_config(config_json("qwen2", R"(,"use_sliding_window":true,"sliding_window":64,)"
                                            R"("max_window_layers":2,"dtype":"float16",)"
                                            R"("rope_parameters":{"partial_rotary_factor":0.5})"),
                       1024);
  REQUIRE(half.ok());
  CHECK(half->package.window == 0);  // of no layer
  CHECK(half->package.rotary_dim == 4);
  const auto rope = rope_section(*half);
  for (std::size_t at = 0; at < rope.size(); at += 4) {
    float value = 0;
    std::memcpy(&value, rope.data() + at, 4);
    const int exponent = value == 0 ? 0 : std::max(std::ilogb(value), -14);
    const float units = value / std::ldexp(1.0F, exponent - 10);
    CHECK(units == std::nearbyint(units));
  }
  const auto window = parse_hub_config(config_json("mistral", R"(,"sliding_window":64)"), 1024);
  REQUIRE(window.ok());
  CHECK(window->package.window == 64);
  CHECK(parse_hub_config(config_json(), 100)->package.positions == 100);
}
