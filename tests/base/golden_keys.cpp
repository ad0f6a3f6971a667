#include "tests/base/golden_keys.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace kvstrata::test {

namespace {

using nlohmann::json;

Shard::Range range_of(const json& shard, const char* name) {
  const auto numbers = shard.value(name, std::vector<std::uint32_t>{0, 0, 0});
  return {numbers.at(0), numbers.at(1), numbers.at(2)};
}

LayerGroup group_of(const json& group) {
  return {parse_group_kind(group.at("kind").get<std::string>()).value(),
          group.at("layers"),
          group.at("kv_heads"),
          group.at("head_dim_k"),
          group.at("head_dim_v"),
          group.value("window_tokens", 0U)};
}

ModelDescriptor model_of(const json& model) {
  ModelDescriptor descriptor;
  descriptor.fingerprint = model.at("fingerprint");
  descriptor.dtype = parse_dtype(model.at("dtype").get<std::string>()).value();
  descriptor.block_tokens = model.at("block_tokens");
  descriptor.vocab_size = model.value("vocab_size", 0U);
  for (const json& group : model.at("groups")) descriptor.groups.push_back(group_of(group));
  const json layout = model.value("layout", json::object());
  descriptor.layout.k_axes = layout.value("k_axes", "LSPHTC");
  descriptor.layout.v_axes = layout.value("v_axes", "LSPHTC");
  descriptor.layout.page_tokens = layout.value("page_tokens", 0U);
  descriptor.layout.isa = layout.value("isa", "");
  const json shard = model.value("shard", json::object());
  descriptor.shard = {range_of(shard, "heads"), range_of(shard, "layers"),
                      range_of(shard, "tokens")};
  return descriptor;
}

NamespaceSpec spec_of(const json& spec) {
  return {spec.at("tenant"),
          model_of(spec.at("model")),
          spec.value("salt", ""),
          spec.value("adapter", ""),
          spec.value("extra_keys", std::vector<std::string>{}),
          spec.value("weight_epoch", std::uint64_t{0})};
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace

std::string to_hex(ByteView bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : bytes) {
    hex += digits[std::to_integer<unsigned>(b) >> 4];
    hex += digits[std::to_integer<unsigned>(b) & 15];
  }
  return hex;
}

std::vector<GoldenKeys> read_golden_keys(const std::string& path) {
  std::ifstream file(path);
  const json parsed = json::parse(file);
  std::vector<GoldenKeys> all;
  for (const json& one : parsed.at("cases")) {
    GoldenKeys keys{one.at("name"),
                    spec_of(one.at("spec")),
                    one.at("tokens"),
                    one.value("block_extra_keys", std::vector<std::vector<std::string>>{}),
                    one.value("namespace_bytes", ""),
                    one.value("namespace_hash", ""),
                    one.value("prefix_hashes", std::vector<std::string>{}),
                    {}};
    const json opaque_keys = one.value("opaque_keys", json::array());
    for (const json& opaque : opaque_keys) {
      keys.opaque_keys.push_back({from_hex(opaque.at("key_hex")), opaque.value("hash", "")});
    }
    all.push_back(std::move(keys));
  }
  return all;
}

std::vector<std::string> computed_prefix_hashes(const GoldenKeys& keys) {
  const std::uint32_t block_tokens = keys.spec.model.block_tokens;
  std::span<const std::uint32_t> left = keys.tokens;
  std::vector<std::string> hashes;
  Hash256 parent = namespace_hash(keys.spec);
  while (left.size() >= block_tokens) {
    const std::size_t block = hashes.size();
    const auto extra = block < keys.block_extra_keys.size() ? keys.block_extra_keys[block]
                                                            : std::vector<std::string>{};
    parent = block_hash(parent, left.first(block_tokens), extra);
    hashes.push_back(parent.hex());
    left = left.subspan(block_tokens);
  }
  return hashes;
}

}  // namespace kvstrata::test
