#include "kvstrata/keys.h"

#include "include/impl/blake2b.h"

namespace kvstrata {

namespace {

// Field types of namespace_bytes(); the numbers are frozen by doc/keys.md.
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

void append_field(ByteVector& out, Field field, ByteView value) {
  out.push_back(static_cast<std::byte>(field));
  append_le(out, static_cast<std::uint32_t>(value.size()));
  out.insert(out.end(), value.begin(), value.end());
}

template <typename... Numbers>
void append_numbers(ByteVector& out, Field field, Numbers... numbers) {
  ByteVector value;
  (append_le(value, numbers), ...);
  append_field(out, field, value);
}

void append_range(ByteVector& out, Field field, const Shard::Range& range) {
  append_numbers(out, field, range.first, range.last, range.of);
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Hash256::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

Result<Hash256> Hash256::from_hex(std::string_view text) {
  Hash256 hash;
  if (text.size() != 2 * hash.bytes.size()) {
    return Error(ErrorKind::invalid_argument, "a hash is 64 lower-case hex digits");
  }
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return Error(ErrorKind::invalid_argument, "a hash is 64 lower-case hex digits");
    }
    hash.bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return hash;
}

ByteVector namespace_bytes(const NamespaceSpec& spec) {
  const ModelDescriptor& model = spec.model;
  ByteVector out;
  append_field(out, Field::tenant, as_bytes(spec.tenant));
  append_field(out, Field::fingerprint, as_bytes(model.fingerprint));
  append_numbers(out, Field::dtype, static_cast<std::uint8_t>(model.dtype));
  append_numbers(out, Field::block_tokens, model.block_tokens);
  append_numbers(out, Field::vocab_size, model.vocab_size);
  for (const LayerGroup& group : model.groups) {
    append_numbers(out, Field::group, static_cast<std::uint8_t>(group.kind), group.layers,
                   group.kv_heads, group.head_dim_k, group.head_dim_v, group.window_tokens);
  }
  append_field(out, Field::k_axes, as_bytes(model.layout.k_axes));
  append_field(out, Field::v_axes, as_bytes(model.layout.v_axes));
  append_numbers(out, Field::page_tokens, model.layout.page_tokens);
  append_field(out, Field::isa, as_bytes(model.layout.isa));
  append_range(out, Field::shard_heads, model.shard.heads);
  append_range(out, Field::shard_layers, model.shard.layers);
  append_range(out, Field::shard_tokens, model.shard.tokens);
  append_field(out, Field::salt, as_bytes(spec.salt));
  append_field(out, Field::adapter, as_bytes(spec.adapter));
  for (const std::string& extra : spec.extra_keys) {
    append_field(out, Field::extra_key, as_bytes(extra));
  }
  append_numbers(out, Field::weight_epoch, spec.weight_epoch);
  return out;
}

Hash256 namespace_hash(const NamespaceSpec& spec) {
  Blake2b blake;
  blake.add(as_bytes("kvstrata namespace 1"));
  blake.add(namespace_bytes(spec));
  return blake.finish();
}

Hash256 block_hash(const Hash256& parent, std::span<const std::uint32_t> tokens,
                   std::span<const std::string> extra_keys) {
  Blake2b blake;
  blake.add(parent.view());
  blake.add(bytes_of(tokens));
  for (const std::string& extra : extra_keys) {
    std::array<std::byte, 4> length;
    store_le(length.data(), static_cast<std::uint32_t>(extra.size()));
    blake.add(length);
    blake.add(as_bytes(extra));
  }
  return blake.finish();
}

std::vector<Hash256> prefix_hashes(const Hash256& namespace_hash,
                                   std::span<const std::uint32_t> tokens,
                                   std::uint32_t block_tokens) {
  std::vector<Hash256> hashes;
  hashes.reserve(tokens.size() / block_tokens);
  const Hash256* parent = &namespace_hash;
  for (; tokens.size() >= block_tokens; tokens = tokens.subspan(block_tokens)) {
    hashes.push_back(block_hash(*parent, tokens.first(block_tokens)));
    parent = &hashes.back();
  }
  return hashes;
}

Hash256 opaque_hash(const Hash256& namespace_hash, ByteView key) {
  Blake2b blake;
  blake.add(as_bytes("kvstrata opaque 1"));
  blake.add(namespace_hash.view());
  blake.add(key);
  return blake.finish();
}

Status validate_tokens(std::span<const std::uint32_t> tokens, std::uint32_t vocab_size) {
  const std::uint32_t limit = vocab_size == 0 ? std::uint32_t{1} << 31 : vocab_size;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= limit) {
      return Error(ErrorKind::invalid_argument, "token id " + std::to_string(tokens[i]) +
                                                    " at position " + std::to_string(i) +
                                                    " is not below " + std::to_string(limit));
    }
  }
  return {};
}

}  // namespace kvstrata
