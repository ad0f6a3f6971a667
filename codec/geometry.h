// A Geometry is a BlockShape turned into addresses: the byte offset of every scalar of a payload.
// Plain data, derived once per call and read from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "codec/shape.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::codec {

inline constexpr std::uint64_t opaque_piece_bytes = 1_MiB;

/// Where one sub-stream's scalars lie. Scalar (head, page, token, channel) is at
/// offset + head·head_stride + page·page_stride + token·token_stride + channel·channel_stride.
/// Strides are in bytes. An opaque piece is one head and channel with all scalars as tokens.
struct Placement {
  std::uint64_t offset = 0;
  std::uint64_t head_stride = 0, page_stride = 0, token_stride = 0, channel_stride = 0;
  std::uint32_t heads = 1, pages = 1, page_tokens = 0, head_dim = 1;
  std::uint32_t scalar_bytes = 1;
  std::uint32_t tail_bytes = 0;  ///< opaque: bytes after the last whole scalar

  /// Loops over the memory outermost first, and the contiguous run they end in.
  struct Loop {
    std::uint64_t count = 1, stride = 0;
  };
  std::array<Loop, 4> loops{};
  std::uint64_t run_bytes = 0;

  std::uint32_t channels() const { return heads * head_dim; }
  std::uint32_t tokens() const { return pages * page_tokens; }
  std::uint64_t scalars() const { return std::uint64_t{channels()} * tokens(); }
  std::uint64_t bytes() const { return scalars() * scalar_bytes + tail_bytes; }
  bool contiguous() const { return run_bytes == bytes(); }

  /// The offset of the scalar of a channel (head · head_dim + dim) and a token of any page.
  std::uint64_t at(std::uint32_t channel, std::uint32_t token) const {
    return offset + channel / head_dim * head_stride + token / page_tokens * page_stride +
           token % page_tokens * token_stride + channel % head_dim * channel_stride;
  }

  /// Calls `visit(offset)` for every run of run_bytes, by rising address.
  template <typename Visit>
  void for_each_run(Visit&& visit) const {
    if (run_bytes == 0) return;
    for (std::uint64_t a = 0; a < loops[0].count; ++a) {
      for (std::uint64_t b = 0; b < loops[1].count; ++b) {
        for (std::uint64_t c = 0; c < loops[2].count; ++c) {
          const std::uint64_t at =
              offset + a * loops[0].stride + b * loops[1].stride + c * loops[2].stride;
          for (std::uint64_t d = 0; d < loops[3].count; ++d) visit(at + d * loops[3].stride);
        }
      }
    }
  }
};

/// The placement of sub-stream `index` (below shape.substreams()) of a checked shape.
Placement placement_of(const BlockShape& shape, std::uint32_t index);

/// `invalid_argument` for a shape whose numbers are out of range or whose axes are no layout. K and
/// V with different head sizes and C before S is one: no stride would reach both.
Status check_shape(const BlockShape& shape);

}  // namespace kvstrata::codec
