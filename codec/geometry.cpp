#include "codec/geometry.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "codec/frame_format.h"

namespace kvstrata::codec {

namespace {

Error bad_shape(const std::string& what) {
  return {ErrorKind::invalid_argument, "block shape: " + what};
}

bool is_layout(std::string_view axes) {
  std::string sorted(axes);
  std::ranges::sort(sorted);
  return sorted == "CHLPST";
}

std::uint64_t head_dim(const BlockShape& shape, Side side) {
  return side == Side::k ? shape.head_dim_k : shape.head_dim_v;
}

std::uint64_t page_tokens(const BlockShape& shape) {
  return shape.layout.page_tokens == 0 ? shape.tokens : shape.layout.page_tokens;
}

std::uint64_t extent(const BlockShape& shape, Side side, char axis) {
  switch (axis) {
    case 'L': return shape.layers;
    case 'P': return shape.tokens / page_tokens(shape);
    case 'H': return shape.kv_heads;
    case 'T': return page_tokens(shape);
    case 'C': return head_dim(shape, side);
    default: return 1;
  }
}

std::string_view axes_of(const BlockShape& shape, Side side) {
  return side == Side::k ? shape.layout.k_axes : shape.layout.v_axes;
}

/// Bytes of one index of axis S: everything inside it, of this side.
std::uint64_t bytes_inside_side(const BlockShape& shape, Side side) {
  const std::string_view axes = axes_of(shape, side);
  std::uint64_t bytes = bytes_per_scalar(shape.dtype);
  for (const char axis : axes.substr(axes.find('S') + 1)) bytes *= extent(shape, side, axis);
  return bytes;
}

/// Strides of one side by axis letter.
struct Strides {
  std::uint64_t l = 0, p = 0, h = 0, t = 0, c = 0;

  std::uint64_t& of(char axis) {
    switch (axis) {
      case 'L': return l;
      case 'P': return p;
      case 'H': return h;
      case 'T': return t;
      default: return c;
    }
  }
};

Strides strides_of(const BlockShape& shape, Side side) {
  const std::string_view axes = axes_of(shape, side);
  Strides strides;
  std::uint64_t stride = bytes_per_scalar(shape.dtype);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (*axis == 'S') {  // what lies further out steps over both sides
      stride = bytes_inside_side(shape, Side::k) +
               (shape.head_dim_v == 0 ? 0 : bytes_inside_side(shape, Side::v));
      continue;
    }
    strides.of(*axis) = stride;
    stride *= extent(shape, side, *axis);
  }
  return strides;
}

/// Merges inner axes into the run as far as they are contiguous; the rest become loops.
void find_runs(Placement& place, const BlockShape& shape, Side side, Strides strides) {
  const std::string_view axes = axes_of(shape, side);
  place.run_bytes = place.scalar_bytes;
  std::size_t free_loop = place.loops.size();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (*axis == 'S' || *axis == 'L') continue;
    const std::uint64_t count = extent(shape, side, *axis);
    if (count == 1) continue;
    if (free_loop == place.loops.size() && strides.of(*axis) == place.run_bytes) {
      place.run_bytes *= count;
    } else {
      place.loops[--free_loop] = {count, strides.of(*axis)};
    }
  }
}

Placement opaque_placement(const BlockShape& shape, std::uint32_t index) {
  const std::uint64_t bytes = shape.substream_bytes(index);
  Placement place;
  place.scalar_bytes = bytes_per_scalar(shape.dtype);
  place.offset = index * opaque_piece_bytes;
  place.page_tokens = static_cast<std::uint32_t>(bytes / place.scalar_bytes);
  place.tail_bytes = static_cast<std::uint32_t>(bytes % place.scalar_bytes);
  place.token_stride = place.scalar_bytes;
  place.run_bytes = bytes;
  return place;
}

}  // namespace

Placement placement_of(const BlockShape& shape, std::uint32_t index) {
  if (shape.is_opaque()) return opaque_placement(shape, index);
  const std::uint32_t sides = shape.head_dim_v == 0 ? 1 : 2;
  const Side side = index % sides == 0 ? Side::k : Side::v;
  Strides strides = strides_of(shape, side);
  Placement place;
  place.scalar_bytes = bytes_per_scalar(shape.dtype);
  place.offset = index / sides * strides.l;
  if (side == Side::v) place.offset += bytes_inside_side(shape, Side::k);
  place.head_stride = strides.h;
  place.page_stride = strides.p;
  place.token_stride = strides.t;
  place.channel_stride = strides.c;
  place.heads = shape.kv_heads;
  place.pages = static_cast<std::uint32_t>(extent(shape, side, 'P'));
  place.page_tokens = static_cast<std::uint32_t>(page_tokens(shape));
  place.head_dim = static_cast<std::uint32_t>(head_dim(shape, side));
  find_runs(place, shape, side, strides);
  return place;
}

Status check_shape(const BlockShape& shape) {
  if (to_string(shape.dtype) == "unknown") return bad_shape("unknown dtype");
  if (shape.is_opaque()) {
    if (shape.opaque_bytes <= block_bytes_max) return {};
    return bad_shape("an opaque value of more than 1 GiB");
  }
  const bool in_range = shape.layers >= 1 && shape.layers <= substreams_max / 2 &&
                        shape.kv_heads >= 1 && shape.kv_heads <= 1024 &&
                        shape.head_dim_k <= 65536 && shape.head_dim_v <= 65536 &&
                        shape.tokens >= 1 && shape.tokens <= 1024;
  if (!in_range || shape.raw_bytes() > block_bytes_max) return bad_shape("dimensions out of range");
  if (shape.tokens % page_tokens(shape) != 0) return bad_shape("pages do not divide the tokens");
  const std::string &k = shape.layout.k_axes, &v = shape.layout.v_axes;
  if (!is_layout(k) || !is_layout(v)) return bad_shape("axes must hold each of L S P H T C once");
  const std::size_t shared = k.find('S') + 1;
  if (k.compare(0, shared, v, 0, shared) != 0) return bad_shape("K and V differ before axis S");
  const bool ragged = shape.head_dim_v != 0 && shape.head_dim_v != shape.head_dim_k;
  if (ragged && k.find('C') < shared) {
    return bad_shape("axis C before S needs equal head sizes of K and V");
  }
  return {};
}

}  // namespace kvstrata::codec
