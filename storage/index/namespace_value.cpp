#include "storage/index/namespace_value.h"

#include <algorithm>

#include "storage/index/byte_cursor.h"
#include "storage/segment/record.h"

namespace kvstrata::storage {

namespace {

constexpr std::uint8_t value_version = 1;

// The field numbers of doc/keys.md.
enum class Field : std::uint8_t {
  tenant = 1,
  fingerprint = 2,
  dtype = 3,
  block_tokens = 4,
  vocab_size = 5,
  group = 6,
  k_axes = 7,
  v_axes = 8,
  page_tokens = 9,
  isa = 10,
  shard_heads = 11,
  shard_layers = 12,
  shard_tokens = 13,
  salt = 14,
  adapter = 15,
  extra_key = 16,
  weight_epoch = 17,
};

constexpr std::size_t groups_max = 64;
constexpr std::size_t extra_keys_max = 16;

LayerGroup take_group(ByteCursor& value) {
  LayerGroup group;
  group.kind = static_cast<GroupKind>(value.take<std::uint8_t>());
  group.layers = value.take<std::uint32_t>();
  group.kv_heads = value.take<std::uint32_t>();
  group.head_dim_k = value.take<std::uint32_t>();
  group.head_dim_v = value.take<std::uint32_t>();
  group.window_tokens = value.take<std::uint32_t>();
  return group;
}

Shard::Range take_range(ByteCursor& value) {
  Shard::Range range;
  range.first = value.take<std::uint32_t>();
  range.last = value.take<std::uint32_t>();
  range.of = value.take<std::uint32_t>();
  return range;
}

std::string take_rest(ByteCursor& value) {
  return std::string(value.take_text(value.rest().size()));
}

// Whether the field was known and its value had the right length.
bool take_field(Field field, ByteCursor value, NamespaceSpec& spec) {
  ModelDescriptor& model = spec.model;
  switch (field) {
    case Field::tenant: spec.tenant = take_rest(value); break;
    case Field::fingerprint: model.fingerprint = take_rest(value); break;
    case Field::dtype: model.dtype = static_cast<DType>(value.take<std::uint8_t>()); break;
    case Field::block_tokens: model.block_tokens = value.take<std::uint32_t>(); break;
    case Field::vocab_size: model.vocab_size = value.take<std::uint32_t>(); break;
    case Field::group: model.groups.push_back(take_group(value)); break;
    case Field::k_axes: model.layout.k_axes = take_rest(value); break;
    case Field::v_axes: model.layout.v_axes = take_rest(value); break;
    case Field::page_tokens: model.layout.page_tokens = value.take<std::uint32_t>(); break;
    case Field::isa: model.layout.isa = take_rest(value); break;
    case Field::shard_heads: model.shard.heads = take_range(value); break;
    case Field::shard_layers: model.shard.layers = take_range(value); break;
    case Field::shard_tokens: model.shard.tokens = take_range(value); break;
    case Field::salt: spec.salt = take_rest(value); break;
    case Field::adapter: spec.adapter = take_rest(value); break;
    case Field::extra_key: spec.extra_keys.push_back(take_rest(value)); break;
    case Field::weight_epoch: spec.weight_epoch = value.take<std::uint64_t>(); break;
    default: return false;
  }
  return value.ok_at_end() && model.groups.size() <= groups_max &&
         spec.extra_keys.size() <= extra_keys_max;
}

}  // namespace

Result<NamespaceSpec> parse_namespace_bytes(ByteView bytes) {
  const Error corrupt(ErrorKind::corrupt, "not the canonical bytes of a namespace");
  if (bytes.size() > identity_bytes_max) return corrupt;
  ByteCursor cursor(as_text(bytes));
  NamespaceSpec spec;
  while (!cursor.rest().empty()) {
    const auto field = static_cast<Field>(cursor.take<std::uint8_t>());
    const auto length = cursor.take<std::uint32_t>();
    const std::string_view value = cursor.take_text(length);
    if (!cursor.ok() || !take_field(field, ByteCursor(value), spec)) return corrupt;
  }
  // Order, repetition and missing fields are all judged at once: one spec has one spelling.
  const ByteVector again = namespace_bytes(spec);
  if (!std::ranges::equal(again, bytes)) return corrupt;
  return spec;
}

std::string namespace_value(const NamespaceValue& value) {
  std::string out;
  append_number(out, value_version);
  append_number(out, value.created_unix_ms);
  append_number(out, value.where.segment.value);
  append_number(out, value.where.generation);
  append_number(out, value.where.offset);
  append_number(out, value.where.bytes);
  out += as_text(namespace_bytes(value.spec));
  return out;
}

Result<NamespaceValue> parse_namespace_value(std::string_view text) {
  ByteCursor cursor(text);
  const bool known = cursor.take<std::uint8_t>() == value_version;
  NamespaceValue value;
  value.created_unix_ms = cursor.take<std::uint64_t>();
  value.where.segment.value = cursor.take<std::uint32_t>();
  value.where.generation = cursor.take<std::uint32_t>();
  value.where.offset = cursor.take<std::uint64_t>();
  value.where.bytes = cursor.take<std::uint64_t>();
  if (!known || !cursor.ok()) {
    return Error(ErrorKind::corrupt, "index: a value of namespaces breaks its grammar");
  }
  KV_ASSIGN(value.spec, parse_namespace_bytes(as_bytes(cursor.rest())));
  return value;
}

}  // namespace kvstrata::storage
