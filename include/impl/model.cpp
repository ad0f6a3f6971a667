#include "kvstrata/model.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace kvstrata {

namespace {

template <typename Value>
using Names = std::array<std::pair<Value, std::string_view>, 6>;

constexpr Names<DType> dtype_names{{{DType::bf16, "bf16"},
                                    {DType::fp16, "fp16"},
                                    {DType::fp8_e4m3, "fp8_e4m3"},
                                    {DType::fp8_e5m2, "fp8_e5m2"},
                                    {DType::int8, "int8"},
                                    {DType::fp32, "fp32"}}};
constexpr std::array<std::pair<GroupKind, std::string_view>, 4> kind_names{
    {{GroupKind::full_attention, "full_attention"},
     {GroupKind::sliding_window, "sliding_window"},
     {GroupKind::recurrent_state, "recurrent_state"},
     {GroupKind::mla_latent, "mla_latent"}}};

template <typename Table, typename Value>
std::string_view name_of(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

template <typename Value, typename Table>
Result<Value> value_of(const Table& table, std::string_view name, std::string_view what) {
  std::string known_names;
  for (const auto& [value, known] : table) {
    if (known == name) return value;
    known_names += known_names.empty() ? "" : ", ";
    known_names += known;
  }
  return Error(ErrorKind::invalid_argument, std::string(what) + " '" + std::string(name) +
                                                "' is unknown; known are " + known_names);
}

Error out_of_range(std::string_view field, std::uint64_t value, std::string_view range) {
  return {ErrorKind::invalid_argument, "model descriptor: " + std::string(field) + " is " +
                                           std::to_string(value) + ", must be " +
                                           std::string(range)};
}

Status check_range(std::string_view field, std::uint64_t value, std::uint64_t low,
                   std::uint64_t high) {
  if (value >= low && value <= high) return {};
  return out_of_range(field, value, std::to_string(low) + ".." + std::to_string(high));
}

Status check_text(std::string_view field, std::string_view text, std::size_t low,
                  std::size_t high) {
  return check_range(std::string(field) + " length", text.size(), low, high);
}

Status check_axes(const Layout& layout) {
  for (const std::string& axes : {layout.k_axes, layout.v_axes}) {
    std::string sorted = axes;
    std::ranges::sort(sorted);
    if (sorted != "CHLPST") {
      return Error(ErrorKind::invalid_argument, "model descriptor: layout axes '" + axes +
                                                    "' must hold each of L S P H T C once");
    }
  }
  const std::size_t shared = layout.k_axes.find('S') + 1;
  if (layout.k_axes.compare(0, shared, layout.v_axes, 0, shared) != 0) {
    return Error(ErrorKind::invalid_argument,
                 "model descriptor: layouts of K and V may differ only after axis S: '" +
                     layout.k_axes + "' against '" + layout.v_axes + "'");
  }
  return {};
}

Status check_group(const LayerGroup& group, const ModelDescriptor& model) {
  if (name_of(kind_names, group.kind) == "unknown") {
    return out_of_range("group kind", static_cast<std::uint64_t>(group.kind), "a known kind");
  }
  KV_TRY(check_range("layers", group.layers, 1, 1024));
  KV_TRY(check_range("kv_heads", group.kv_heads, 1, 1024));
  KV_TRY(check_range("head_dim_k", group.head_dim_k, 1, 65536));
  const bool k_only =
      group.kind == GroupKind::mla_latent || group.kind == GroupKind::recurrent_state;
  KV_TRY(check_range("head_dim_v", group.head_dim_v, k_only ? 0 : 1, 65536));
  const std::string& axes = model.layout.k_axes;
  if (group.head_dim_v != 0 && group.head_dim_k != group.head_dim_v &&
      axes.find('C') < axes.find('S')) {
    return Error(ErrorKind::invalid_argument,
                 "model descriptor: layout axis C may be outside S only where head_dim_k equals "
                 "head_dim_v");
  }
  const bool windowed = group.kind == GroupKind::sliding_window;
  KV_TRY(check_range("window_tokens", group.window_tokens, windowed ? 1 : 0,
                     windowed ? std::uint64_t{1} << 30 : 0));
  return check_range("bytes of one block", block_bytes(model, group), 1, block_bytes_max);
}

Status check_shard_range(std::string_view field, const Shard::Range& range) {
  if (range == Shard::Range{}) return {};
  if (range.first < range.last && range.last <= range.of) return {};
  return Error(ErrorKind::invalid_argument,
               "model descriptor: shard " + std::string(field) + " must be first < last <= of");
}

}  // namespace

std::string_view to_string(DType dtype) {
  return name_of(dtype_names, dtype);
}
Result<DType> parse_dtype(std::string_view name) {
  return value_of<DType>(dtype_names, name, "dtype");
}
std::string_view to_string(GroupKind kind) {
  return name_of(kind_names, kind);
}
Result<GroupKind> parse_group_kind(std::string_view name) {
  return value_of<GroupKind>(kind_names, name, "layer group kind");
}

Status validate(const ModelDescriptor& model) {
  KV_TRY(check_text("fingerprint", model.fingerprint, 1, 128));
  if (to_string(model.dtype) == "unknown") {
    return out_of_range("dtype", static_cast<std::uint64_t>(model.dtype), "a known dtype");
  }
  KV_TRY(check_range("block_tokens", model.block_tokens, 16, 1024));
  KV_TRY(check_range("vocab_size", model.vocab_size, 0, std::uint64_t{1} << 31));
  KV_TRY(check_range("number of groups", model.groups.size(), 0, 64));
  KV_TRY(check_axes(model.layout));
  KV_TRY(check_text("layout isa", model.layout.isa, 0, 64));
  const std::uint32_t page = model.layout.page_tokens;
  if (page != 0 && model.block_tokens % page != 0) {
    return out_of_range("layout page_tokens", page, "0 or a divisor of block_tokens");
  }
  KV_TRY(check_shard_range("heads", model.shard.heads));
  KV_TRY(check_shard_range("layers", model.shard.layers));
  KV_TRY(check_shard_range("tokens", model.shard.tokens));
  for (const LayerGroup& group : model.groups) KV_TRY(check_group(group, model));
  return {};
}

std::uint64_t block_bytes(const ModelDescriptor& model, const LayerGroup& group) {
  const std::uint64_t tokens =
      group.kind == GroupKind::recurrent_state ? 1 : std::uint64_t{model.block_tokens};
  const std::uint64_t dims = std::uint64_t{group.head_dim_k} + group.head_dim_v;
  return tokens * group.layers * group.kv_heads * dims * bytes_per_scalar(model.dtype);
}

}  // namespace kvstrata
