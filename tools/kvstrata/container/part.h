// A Part is a piece of a file that is encoded alike: a tensor, K and V of one sequence, or bytes
// that are kept. It knows its frames and where each of their scalars lies in the file. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "codec/shape.h"
#include "kvstrata/result.h"
#include "tools/kvstrata/container/format.h"

namespace kvstrata::tool {

/// Numbers are part of the format.
enum class PartKind : std::uint8_t {
  bytes = 0,   ///< kept as they are
  values = 1,  ///< an opaque value
  blocks = 2,  ///< one tensor [layers, 2, kv_heads, tokens, head_dim]
  apart = 3    ///< K [layers, kv_heads, tokens, head_dim_k], and V elsewhere, or none
};

/// Payload bytes of a frame of values or bytes; the last frame of a part is shorter.
inline constexpr std::uint64_t value_frame_bytes = 16_MiB;

struct Part {
  PartKind kind = PartKind::bytes;
  DType dtype = DType::int8;
  std::uint32_t set = no_set;  ///< number of its tables; no_set: its frames are raw
  std::uint64_t at = 0;        ///< where it begins in the file; kind apart: its K
  std::uint64_t at_v = 0;      ///< kind apart, with V
  std::uint64_t bytes = 0;     ///< in the file, K and V together
  std::uint32_t layers = 0, kv_heads = 0, head_dim_k = 0, head_dim_v = 0;
  std::uint32_t tokens = 0;
  std::uint32_t frame_tokens = 0;
  std::string name;    ///< the tensor's; empty for what is no tensor
  std::string name_v;  ///< kind apart, with V

  bool is_kv() const { return kind == PartKind::blocks || kind == PartKind::apart; }
  std::string heads_text() const;  ///< "3x64", or "3x64+32" if V's heads are of another size
  std::uint64_t frames() const;
  codec::BlockShape frame_shape(std::uint64_t frame) const;  ///< `frame` is below frames()

  using Run = std::function<Status(std::uint64_t file_at, std::uint64_t payload_at,
                                   std::uint64_t run_bytes)>;
  /// Calls `run` for each piece of a frame's payload that is contiguous in the file too, until one
  /// fails.
  Status for_each_run(std::uint64_t frame, const Run& run) const;

  PartRecord record() const;
  /// `corrupt` names what is wrong with the record of a file of `file_bytes`; names stay empty.
  static Result<Part> of(const PartRecord& record, std::uint64_t file_bytes, std::uint32_t sets);
};

}  // namespace kvstrata::tool
