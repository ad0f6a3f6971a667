#include "codec/rows.h"

#include <cstring>

namespace kvstrata::codec {

namespace {

/// Copies the tokens of a channel in a page. Small pages have so few bytes a channel that calling
/// memcpy takes longer than copying.
inline void copy_tokens(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  constexpr std::size_t piece = 32;
  if (bytes % piece != 0 || bytes > 4 * piece) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; i += piece) std::memcpy(to + i, from + i, piece);
}

/// Calls visit(tile, payload offset, channel, first token) until all scalars are visited: whole
/// heads of a page where channels are adjacent, else one channel of a page.
template <typename Visit>
void for_each_tile(const Placement& place, Visit&& visit) {
  const bool whole_heads =
      place.channel_stride == place.scalar_bytes && place.token_stride != place.scalar_bytes;
  const std::uint32_t tile_channels = whole_heads ? place.head_dim : 1;
  const Tile tile{place.scalar_bytes, place.token_stride, tile_channels, place.page_tokens};
  for (std::uint32_t head = 0; head < place.heads; ++head) {
    // Channels of a page lie nearer to each other in memory than pages do.
    for (std::uint32_t page = 0; page < place.pages; ++page) {
      for (std::uint32_t dim = 0; dim < place.head_dim; dim += tile_channels) {
        const std::uint64_t at = place.offset + head * place.head_stride +
                                 dim * place.channel_stride + page * place.page_stride;
        visit(tile, at, head * place.head_dim + dim, std::size_t{page} * place.page_tokens);
      }
    }
  }
}

}  // namespace

void gather_rows(const Kernels& kernels, const Placement& place, const std::uint8_t* payload,
                 const std::uint32_t* first_lane, std::uint8_t* rows) {
  const bool tokens_adjacent = place.token_stride == place.scalar_bytes;
  for_each_tile(place,
                [&](const Tile& tile, std::uint64_t at, std::size_t channel, std::size_t token) {
                  std::uint8_t* const tile_rows = rows + token * tile.scalar_bytes;
                  if (!tokens_adjacent)
                    return kernels.gather(tile, payload + at, first_lane + channel, tile_rows);
                  copy_tokens(tile_rows + std::size_t{first_lane[channel]} * tile.scalar_bytes,
                              payload + at, tile.tokens * tile.scalar_bytes);
                });
}

void scatter_rows(const Kernels& kernels, const Placement& place, const std::uint8_t* rows,
                  const std::uint32_t* first_lane, std::uint8_t* payload) {
  const bool tokens_adjacent = place.token_stride == place.scalar_bytes;
  for_each_tile(
      place, [&](const Tile& tile, std::uint64_t at, std::size_t channel, std::size_t token) {
        const std::uint8_t* const tile_rows = rows + token * tile.scalar_bytes;
        if (!tokens_adjacent)
          return kernels.scatter(tile, tile_rows, first_lane + channel, payload + at);
        copy_tokens(payload + at, tile_rows + std::size_t{first_lane[channel]} * tile.scalar_bytes,
                    tile.tokens * tile.scalar_bytes);
      });
}

}  // namespace kvstrata::codec
