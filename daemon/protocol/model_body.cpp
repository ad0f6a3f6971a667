#include "daemon/protocol/model_body.h"

namespace kvstrata::protocol {

namespace {

constexpr std::uint64_t u32_max = UINT32_MAX;

Result<std::uint32_t> get_u32_or_0(const Body& body, std::string_view key) {
  KV_ASSIGN(const std::uint64_t value, body.get_u64_or(key, 0, 0, u32_max));
  return static_cast<std::uint32_t>(value);
}

Body encode_group(const LayerGroup& group) {
  Body body;
  body.set_text("kind", to_string(group.kind));
  body.set_u64("layers", group.layers);
  body.set_u64("kv_heads", group.kv_heads);
  body.set_u64("head_dim_k", group.head_dim_k);
  body.set_u64("head_dim_v", group.head_dim_v);
  if (group.window_tokens != 0) body.set_u64("window_tokens", group.window_tokens);
  return body;
}

Result<LayerGroup> decode_group(const Body& body) {
  LayerGroup group;
  KV_ASSIGN(const std::string kind, body.get_text("kind", 32));
  KV_ASSIGN(group.kind, parse_group_kind(kind));
  KV_ASSIGN(group.layers, get_u32_or_0(body, "layers"));
  KV_ASSIGN(group.kv_heads, get_u32_or_0(body, "kv_heads"));
  KV_ASSIGN(group.head_dim_k, get_u32_or_0(body, "head_dim_k"));
  KV_ASSIGN(group.head_dim_v, get_u32_or_0(body, "head_dim_v"));
  KV_ASSIGN(group.window_tokens, get_u32_or_0(body, "window_tokens"));
  return group;
}

Body encode_layout(const Layout& layout) {
  Body body;
  body.set_text("k_axes", layout.k_axes);
  body.set_text("v_axes", layout.v_axes);
  if (layout.page_tokens != 0) body.set_u64("page_tokens", layout.page_tokens);
  if (!layout.isa.empty()) body.set_text("isa", layout.isa);
  return body;
}

Result<Layout> decode_layout(const Body& body) {
  Layout layout;
  KV_ASSIGN(layout.k_axes, body.get_text_or("k_axes", Layout{}.k_axes, 16));
  KV_ASSIGN(layout.v_axes, body.get_text_or("v_axes", Layout{}.v_axes, 16));
  KV_ASSIGN(layout.page_tokens, get_u32_or_0(body, "page_tokens"));
  KV_ASSIGN(layout.isa, body.get_text_or("isa", "", 64));
  return layout;
}

void set_range(Body& body, std::string_view key, const Shard::Range& range) {
  if (range == Shard::Range{}) return;
  const std::uint64_t numbers[] = {range.first, range.last, range.of};
  body.set_u64s(key, numbers);
}

Result<Shard::Range> get_range(const Body& body, std::string_view key) {
  if (!body.has(key)) return Shard::Range{};
  KV_ASSIGN(const auto numbers, body.get_u64s(key, 3, u32_max));
  if (numbers.size() != 3) {
    return Error(ErrorKind::invalid_argument,
                 "field '" + std::string(key) + "' must be [first, last, of]");
  }
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(numbers[i]); };
  return Shard::Range{at(0), at(1), at(2)};
}

Result<Shard> decode_shard(const Body& body) {
  Shard shard;
  KV_ASSIGN(shard.heads, get_range(body, "heads"));
  KV_ASSIGN(shard.layers, get_range(body, "layers"));
  KV_ASSIGN(shard.tokens, get_range(body, "tokens"));
  return shard;
}

Status decode_groups(const Body& body, std::vector<LayerGroup>& groups) {
  if (!body.has("groups")) return {};
  KV_ASSIGN(const auto bodies, body.get_bodies("groups", 64));
  for (const Body& entry : bodies) {
    auto group = decode_group(entry);
    if (!group) return group.error().with_context("group " + std::to_string(groups.size()));
    groups.push_back(*group);
  }
  return {};
}

}  // namespace

Body encode_model(const ModelDescriptor& descriptor) {
  Body body;
  body.set_text("fingerprint", descriptor.fingerprint);
  body.set_text("dtype", to_string(descriptor.dtype));
  body.set_u64("block_tokens", descriptor.block_tokens);
  if (descriptor.vocab_size != 0) body.set_u64("vocab_size", descriptor.vocab_size);
  std::vector<Body> groups;
  for (const LayerGroup& group : descriptor.groups) groups.push_back(encode_group(group));
  body.set_bodies("groups", groups);
  if (descriptor.layout != Layout{}) body.set_body("layout", encode_layout(descriptor.layout));
  if (descriptor.shard != Shard{}) {
    Body shard;
    set_range(shard, "heads", descriptor.shard.heads);
    set_range(shard, "layers", descriptor.shard.layers);
    set_range(shard, "tokens", descriptor.shard.tokens);
    body.set_body("shard", shard);
  }
  return body;
}

Result<ModelDescriptor> decode_model(const Body& body) {
  ModelDescriptor descriptor;
  KV_ASSIGN(descriptor.fingerprint, body.get_text("fingerprint", 128));
  KV_ASSIGN(const std::uint64_t block_tokens,
            body.get_u64_or("block_tokens", descriptor.block_tokens, 0, u32_max));
  descriptor.block_tokens = static_cast<std::uint32_t>(block_tokens);
  KV_ASSIGN(descriptor.vocab_size, get_u32_or_0(body, "vocab_size"));
  KV_TRY(decode_groups(body, descriptor.groups));
  if (!descriptor.groups.empty() || body.has("dtype")) {  // opaque values have no dtype to name
    KV_ASSIGN(const std::string dtype, body.get_text("dtype", 32));
    KV_ASSIGN(descriptor.dtype, parse_dtype(dtype));
  }
  if (body.has("layout")) {
    KV_ASSIGN(const Body layout, body.get_body("layout"));
    KV_ASSIGN(descriptor.layout, decode_layout(layout));
  }
  if (body.has("shard")) {
    KV_ASSIGN(const Body shard, body.get_body("shard"));
    KV_ASSIGN(descriptor.shard, decode_shard(shard));
  }
  KV_TRY(validate(descriptor));
  return descriptor;
}

void encode_register(const NamespaceSpec& spec, Body& body) {
  body.set_body("model", encode_model(spec.model));
  if (!spec.salt.empty()) body.set_bytes("salt", as_bytes(spec.salt));
  if (!spec.adapter.empty()) body.set_bytes("adapter", as_bytes(spec.adapter));
  if (!spec.extra_keys.empty()) body.set_byte_strings("extra_keys", spec.extra_keys);
}

Result<NamespaceSpec> decode_register(const Body& body) {
  NamespaceSpec spec;
  KV_ASSIGN(const Body model, body.get_body("model"));
  auto descriptor = decode_model(model);
  if (!descriptor) return descriptor.error().with_context("field 'model'");
  spec.model = std::move(descriptor).value();
  KV_ASSIGN(const auto salt, body.find_bytes("salt", 256));
  if (salt) spec.salt = as_text(*salt);
  KV_ASSIGN(const auto adapter, body.find_bytes("adapter", 256));
  if (adapter) spec.adapter = as_text(*adapter);
  if (body.has("extra_keys")) {
    KV_ASSIGN(spec.extra_keys, body.get_byte_strings("extra_keys", 16, 256));
  }
  return spec;
}

}  // namespace kvstrata::protocol
