#include "tools/kvstrata/container/part.h"

#include <algorithm>

#include "codec/geometry.h"

namespace kvstrata::tool {

namespace {

Error corrupt(const std::string& what) {
  return {ErrorKind::corrupt, "a part of it " + what};
}

/// Runs that follow each other, in the file and in the payload, become one.
class Joined {
 public:
  explicit Joined(const Part::Run& run) : run_(run) {}

  Status add(std::uint64_t file_at, std::uint64_t payload_at, std::uint64_t bytes) {
    if (file_at == file_at_ + bytes_ && payload_at == payload_at_ + bytes_) {
      bytes_ += bytes;
      return {};
    }
    KV_TRY(flush());
    file_at_ = file_at, payload_at_ = payload_at, bytes_ = bytes;
    return {};
  }
  Status flush() { return bytes_ == 0 ? Status() : run_(file_at_, payload_at_, bytes_); }

 private:
  const Part::Run& run_;
  std::uint64_t file_at_ = 0, payload_at_ = 0, bytes_ = 0;
};

std::uint64_t whole_bytes(const Part& part, std::uint64_t dims) {
  return dims * bytes_per_scalar(part.dtype) * part.layers * part.kv_heads * part.tokens;
}

bool lies_inside(std::uint64_t at, std::uint64_t bytes, std::uint64_t whole) {
  return at <= whole && bytes <= whole - at;
}

Status check_kv(const Part& part, std::uint64_t file_bytes) {
  if (part.head_dim_k == 0 || part.tokens == 0 || part.frame_tokens == 0 ||
      part.frame_tokens > part.tokens || !codec::check_shape(part.frame_shape(0))) {
    return corrupt("has a shape that no block has");
  }
  const bool is_pair = part.kind == PartKind::apart && part.head_dim_v != 0;
  if (part.kind == PartKind::blocks && part.head_dim_v != part.head_dim_k) {
    return corrupt("has K and V of different sizes in one tensor");
  }
  // A frame has at most 2^30 bytes and the tokens are 32 bits: no product overflows.
  const std::uint64_t k_bytes = whole_bytes(part, part.head_dim_k);
  const std::uint64_t v_bytes = whole_bytes(part, part.head_dim_v);
  if (part.bytes != k_bytes + v_bytes) return corrupt("has another size than its shape");
  const bool inside = is_pair ? lies_inside(part.at, k_bytes, file_bytes) &&
                                    lies_inside(part.at_v, v_bytes, file_bytes)
                              : lies_inside(part.at, part.bytes, file_bytes) && part.at_v == 0;
  if (!inside) return corrupt("lies outside of the file");
  return {};
}

Status check_plain(const Part& part, std::uint64_t file_bytes) {
  const bool is_plain = part.layers == 0 && part.kv_heads == 0 && part.head_dim_k == 0 &&
                        part.head_dim_v == 0 && part.tokens == 0 && part.frame_tokens == 0 &&
                        part.at_v == 0;
  if (!is_plain) return corrupt("has a shape but is no block");
  if (part.kind == PartKind::bytes && (part.set != no_set || part.dtype != DType::int8)) {
    return corrupt("has tables or a dtype but is plain bytes");
  }
  if (part.bytes == 0 || !lies_inside(part.at, part.bytes, file_bytes)) {
    return corrupt("lies outside of the file");
  }
  return {};
}

}  // namespace

std::string Part::heads_text() const {
  std::string text = std::to_string(kv_heads) + "x" + std::to_string(head_dim_k);
  if (head_dim_v != 0 && head_dim_v != head_dim_k) text += "+" + std::to_string(head_dim_v);
  return text;
}

std::uint64_t Part::frames() const {
  if (is_kv()) return (std::uint64_t{tokens} + frame_tokens - 1) / frame_tokens;
  return (bytes + value_frame_bytes - 1) / value_frame_bytes;
}

codec::BlockShape Part::frame_shape(std::uint64_t frame) const {
  if (!is_kv()) {
    return codec::BlockShape::opaque(
        dtype, std::min(value_frame_bytes, bytes - frame * value_frame_bytes));
  }
  codec::BlockShape shape;
  shape.dtype = dtype;
  shape.layers = layers;
  shape.kv_heads = kv_heads;
  shape.head_dim_k = head_dim_k;
  shape.head_dim_v = head_dim_v;
  shape.tokens = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(frame_tokens, tokens - frame * frame_tokens));
  return shape;
}

Status Part::for_each_run(std::uint64_t frame, const Run& run) const {
  const codec::BlockShape shape = frame_shape(frame);
  if (!is_kv()) return run(at + frame * value_frame_bytes, 0, shape.raw_bytes());
  Joined joined(run);
  std::uint64_t payload_at = 0;
  const auto add_side = [&](std::uint64_t& side_at, std::uint64_t head_dim) -> Status {
    const std::uint64_t token_bytes = head_dim * bytes_per_scalar(dtype);
    const std::uint64_t run_bytes = token_bytes * shape.tokens;
    for (std::uint32_t head = 0; head < kv_heads && run_bytes != 0; ++head) {
      KV_TRY(joined.add(side_at + frame * frame_tokens * token_bytes, payload_at, run_bytes));
      payload_at += run_bytes;
      side_at += token_bytes * tokens;
    }
    return {};
  };
  std::uint64_t k_at = at, v_elsewhere_at = at_v;
  std::uint64_t& v_at = kind == PartKind::blocks ? k_at : v_elsewhere_at;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    KV_TRY(add_side(k_at, head_dim_k));
    KV_TRY(add_side(v_at, head_dim_v));
  }
  return joined.flush();
}

PartRecord Part::record() const {
  PartRecord record{};
  record.kind = static_cast<std::uint8_t>(kind);
  record.dtype = static_cast<std::uint8_t>(dtype);
  record.set = set;
  record.at = at;
  record.at_v = at_v;
  record.bytes = bytes;
  record.layers = layers;
  record.kv_heads = kv_heads;
  record.head_dim_k = head_dim_k;
  record.head_dim_v = head_dim_v;
  record.tokens = tokens;
  record.frame_tokens = frame_tokens;
  record.name_bytes = static_cast<std::uint32_t>(name.size());
  record.name_v_bytes = static_cast<std::uint32_t>(name_v.size());
  return record;
}

Result<Part> Part::of(const PartRecord& record, std::uint64_t file_bytes, std::uint32_t sets) {
  if (record.kind > static_cast<std::uint8_t>(PartKind::apart))
    return corrupt("is of no known kind");
  if (record.dtype < static_cast<std::uint8_t>(DType::bf16) ||
      record.dtype > static_cast<std::uint8_t>(DType::fp32)) {
    return corrupt("is of no known dtype");
  }
  if (record.reserved != 0) return corrupt("uses reserved bits");
  if (record.set != no_set && record.set >= sets) return corrupt("names tables that are not there");
  if (record.name_bytes > name_bytes_max || record.name_v_bytes > name_bytes_max) {
    return corrupt("has a name of more than 65535 bytes");
  }
  Part part;
  part.kind = static_cast<PartKind>(record.kind);
  part.dtype = static_cast<DType>(record.dtype);
  part.set = record.set;
  part.at = record.at;
  part.at_v = record.at_v;
  part.bytes = record.bytes;
  part.layers = record.layers;
  part.kv_heads = record.kv_heads;
  part.head_dim_k = record.head_dim_k;
  part.head_dim_v = record.head_dim_v;
  part.tokens = record.tokens;
  part.frame_tokens = record.frame_tokens;
  KV_TRY(part.is_kv() ? check_kv(part, file_bytes) : check_plain(part, file_bytes));
  const bool has_v_name = part.kind == PartKind::apart && part.head_dim_v != 0;
  if (!has_v_name && record.name_v_bytes != 0) return corrupt("has a name that it has no use for");
  return part;
}

}  // namespace kvstrata::tool
