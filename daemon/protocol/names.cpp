#include "daemon/protocol/names.h"

namespace kvstrata::protocol {

namespace {

Error payload_error(const std::string& why) {
  return {ErrorKind::invalid_argument, "payload: " + why};
}

Error too_short(std::uint64_t wanted, std::uint64_t found) {
  return payload_error("field 'count' asks for " + std::to_string(wanted) + " bytes, only " +
                       std::to_string(found) + " came");
}

template <typename T>
Status take_array(ByteView& payload, std::uint32_t count, std::vector<T>& out) {
  const std::uint64_t bytes = std::uint64_t{count} * sizeof(T);
  if (payload.size() < bytes) return too_short(bytes, payload.size());
  out.resize(count);
  if (bytes != 0) std::memcpy(out.data(), payload.data(), bytes);
  payload = payload.subspan(bytes);
  return {};
}

void append(ByteView bytes, ByteVector& out) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::uint32_t count_max(SelectBy by) {
  return by == SelectBy::tokens ? tokens_per_request_max : blocks_per_request_max;
}

}  // namespace

Status check_count(SelectBy by, std::size_t count) {
  if (count <= count_max(by)) return {};
  return Error(ErrorKind::too_large, "a request names at most " + std::to_string(count_max(by)) +
                                         (by == SelectBy::tokens ? " tokens" : " blocks"));
}

Result<std::uint32_t> get_ns(const Body& body) {
  KV_ASSIGN(const std::uint64_t ns, body.get_u64("ns", 0, UINT32_MAX));
  return static_cast<std::uint32_t>(ns);
}

Result<std::uint16_t> get_group(const Body& body) {
  KV_ASSIGN(const std::uint64_t group, body.get_u64_or("group", 0, 0, UINT16_MAX));
  return static_cast<std::uint16_t>(group);
}

Result<SelectBy> get_by(const Body& body) {
  KV_ASSIGN(const std::string name, body.get_text("by", 16));
  for (const SelectBy by : {SelectBy::hash, SelectBy::tokens, SelectBy::key}) {
    if (name == to_string(by)) return by;
  }
  return Error(ErrorKind::invalid_argument, "field 'by' must be hash, tokens or key");
}

Result<std::uint32_t> get_count(const Body& body, SelectBy by) {
  KV_ASSIGN(const std::uint64_t count, body.get_u64("count", 0, count_max(by)));
  return static_cast<std::uint32_t>(count);
}

Result<Extras> get_extras(const Body& body, SelectBy by) {
  if (!body.has("extras")) return Extras();
  if (by != SelectBy::tokens) {
    return Error(ErrorKind::invalid_argument, "field 'extras' needs 'by' to be tokens");
  }
  return body.get_indexed_bytes("extras", blocks_per_request_max - 1, extra_keys_per_block_max,
                                extra_key_bytes_max);
}

void append_hashes(std::span<const Hash256> hashes, ByteVector& payload) {
  static_assert(sizeof(Hash256) == 32);
  append(bytes_of(hashes), payload);
}

void append_tokens(std::span<const std::uint32_t> tokens, ByteVector& payload) {
  append(bytes_of(tokens), payload);
}

Status append_keys(std::span<const std::string> keys, ByteVector& payload) {
  for (const std::string& key : keys) {
    if (key.empty() || key.size() > opaque_key_bytes_max) {
      return payload_error("a key has 1.." + std::to_string(opaque_key_bytes_max) + " bytes");
    }
    append_le(payload, static_cast<std::uint16_t>(key.size()));
    append(as_bytes(key), payload);
  }
  return {};
}

Status take_hashes(ByteView& payload, std::uint32_t count, std::vector<Hash256>& out) {
  return take_array(payload, count, out);
}

Status take_tokens(ByteView& payload, std::uint32_t count, std::vector<std::uint32_t>& out) {
  return take_array(payload, count, out);
}

Status take_keys(ByteView& payload, std::uint32_t count, std::vector<std::string>& out) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (payload.size() < 2) return too_short(2, payload.size());
    const auto bytes = load_le<std::uint16_t>(payload.data());
    payload = payload.subspan(2);
    if (bytes == 0 || bytes > opaque_key_bytes_max) {
      return payload_error("a key has 1.." + std::to_string(opaque_key_bytes_max) + " bytes");
    }
    if (payload.size() < bytes) return too_short(bytes, payload.size());
    out.emplace_back(as_text(payload.first(bytes)));
    payload = payload.subspan(bytes);
  }
  return {};
}

Status check_consumed(ByteView payload) {
  if (payload.empty()) return {};
  return payload_error(std::to_string(payload.size()) + " bytes more than field 'count' asks for");
}

}  // namespace kvstrata::protocol
