// Transposing tiles of 2-byte scalars with AVX-512, 32 channels by 32 tokens: whole cache lines are
// written, and what comes next is asked for early, since rows lie far apart. The rest is AVX2's.
#include "codec/avx2.h"
#include "codec/avx512.h"

namespace kvstrata::codec::avx512 {

namespace {

constexpr std::size_t side = 32;  ///< of a square
constexpr std::size_t group = 8;  ///< channels whose scalars of a token make 16 bytes
constexpr std::size_t groups = side / group;

/// 8 registers of 32 scalars each: transposes 8 by 8 in every 128-bit part.
KV_AVX512_INLINE void transpose_parts(__m512i* lines) {
#pragma GCC unroll 3
  for (int round = 0; round < 3; ++round) {
    __m512i mixed[group];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < group / 2; ++i) {
      mixed[2 * i] = _mm512_unpacklo_epi16(lines[i], lines[i + group / 2]);
      mixed[2 * i + 1] = _mm512_unpackhi_epi16(lines[i], lines[i + group / 2]);
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < group; ++i) lines[i] = mixed[i];
  }
}

/// Parts j of the 4 registers become register j.
KV_AVX512_INLINE void transpose_lines(__m512i& a, __m512i& b, __m512i& c, __m512i& d) {
  const __m512i front_ab = _mm512_shuffle_i32x4(a, b, 0x44);
  const __m512i back_ab = _mm512_shuffle_i32x4(a, b, 0xee);
  const __m512i front_cd = _mm512_shuffle_i32x4(c, d, 0x44);
  const __m512i back_cd = _mm512_shuffle_i32x4(c, d, 0xee);
  a = _mm512_shuffle_i32x4(front_ab, front_cd, 0x88);
  b = _mm512_shuffle_i32x4(front_ab, front_cd, 0xdd);
  c = _mm512_shuffle_i32x4(back_ab, back_cd, 0x88);
  d = _mm512_shuffle_i32x4(back_ab, back_cd, 0xdd);
}

/// Token t of a square is register t % 8 of group t / 8.
KV_AVX512_INLINE void scatter_square(const std::uint8_t* rows, const std::uint32_t* first_lane,
                                     std::size_t stride, std::uint8_t* to) {
  __m512i lines[groups][group];
#pragma GCC unroll 4
  for (std::size_t g = 0; g < groups; ++g) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < group; ++i) {
      const std::uint8_t* const row = rows + std::size_t{first_lane[g * group + i]} * 2;
      lines[g][i] = load(row);
      __builtin_prefetch(row + 2 * side);
      __builtin_prefetch(to + (side + g * group + i) * stride, 1);
    }
    transpose_parts(lines[g]);
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < group; ++i) {
    transpose_lines(lines[0][i], lines[1][i], lines[2][i], lines[3][i]);
#pragma GCC unroll 4
    for (std::size_t g = 0; g < groups; ++g) store(to + (g * group + i) * stride, lines[g][i]);
  }
}

/// The reverse: token 8 g + i of the square is lines[g][i], channel 8 g + i is it in the end.
KV_AVX512_INLINE void gather_square(const std::uint8_t* from, std::size_t stride,
                                    const std::uint32_t* first_lane, std::uint8_t* rows) {
  __m512i lines[groups][group];
#pragma GCC unroll 4
  for (std::size_t g = 0; g < groups; ++g) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < group; ++i) {
      lines[g][i] = load(from + (g * group + i) * stride);
      __builtin_prefetch(from + (side + g * group + i) * stride);
      __builtin_prefetch(rows + (std::size_t{first_lane[g * group + i]} + side) * 2, 1);
    }
    transpose_parts(lines[g]);
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < group; ++i) {
    transpose_lines(lines[0][i], lines[1][i], lines[2][i], lines[3][i]);
#pragma GCC unroll 4
    for (std::size_t g = 0; g < groups; ++g) {
      store(rows + std::size_t{first_lane[g * group + i]} * 2, lines[g][i]);
    }
  }
}

/// The part of a tile that whole squares cover; empty for other sizes of scalars.
Tile covered_part(const Tile& tile) {
  Tile part = tile;
  const bool fits = tile.scalar_bytes == 2;
  part.channels = fits ? tile.channels - tile.channels % side : 0;
  part.tokens = fits ? tile.tokens - tile.tokens % side : 0;
  return part;
}

}  // namespace

KV_AVX512 void gather(const Tile& tile, const std::uint8_t* payload,
                      const std::uint32_t* first_lane, std::uint8_t* rows) {
  const Tile covered = covered_part(tile);
  for (std::size_t token = 0; token < covered.tokens; token += side) {
    for (std::size_t channel = 0; channel < covered.channels; channel += side) {
      gather_square(payload + token * tile.token_stride + channel * 2, tile.token_stride,
                    first_lane + channel, rows + token * 2);
    }
  }
  for_the_rest(tile, covered, [&](const Tile& rest, std::size_t token, std::size_t channel) {
    avx2::gather(rest, payload + token * tile.token_stride + channel * tile.scalar_bytes,
                 first_lane + channel, rows + token * tile.scalar_bytes);
  });
}

KV_AVX512 void scatter(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
                       std::uint8_t* payload) {
  const Tile covered = covered_part(tile);
  for (std::size_t token = 0; token < covered.tokens; token += side) {
    for (std::size_t channel = 0; channel < covered.channels; channel += side) {
      scatter_square(rows + token * 2, first_lane + channel, tile.token_stride,
                     payload + token * tile.token_stride + channel * 2);
    }
  }
  for_the_rest(tile, covered, [&](const Tile& rest, std::size_t token, std::size_t channel) {
    avx2::scatter(rest, rows + token * tile.scalar_bytes, first_lane + channel,
                  payload + token * tile.token_stride + channel * tile.scalar_bytes);
  });
}

}  // namespace kvstrata::codec::avx512
