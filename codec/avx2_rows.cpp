// Transposing tiles with AVX2. A square of n channels by n tokens fits n registers of 128 bits; two
// squares, of tokens t.. and t + n.., lie in the two halves of 256.
#include "codec/avx2.h"

namespace kvstrata::codec::avx2 {

namespace {

template <std::size_t scalar_bytes>
inline constexpr std::size_t square = 16 / scalar_bytes;

template <std::size_t scalar_bytes>
KV_AVX2_INLINE __m256i interleave_low(__m256i a, __m256i b) {
  if constexpr (scalar_bytes == 1) return _mm256_unpacklo_epi8(a, b);
  if constexpr (scalar_bytes == 2) return _mm256_unpacklo_epi16(a, b);
  return _mm256_unpacklo_epi32(a, b);
}

template <std::size_t scalar_bytes>
KV_AVX2_INLINE __m256i interleave_high(__m256i a, __m256i b) {
  if constexpr (scalar_bytes == 1) return _mm256_unpackhi_epi8(a, b);
  if constexpr (scalar_bytes == 2) return _mm256_unpackhi_epi16(a, b);
  return _mm256_unpackhi_epi32(a, b);
}

/// Transposes both squares: log2(n) rounds of interleaving register i with i + n / 2.
template <std::size_t scalar_bytes>
KV_AVX2_INLINE void transpose(__m256i* lines) {
  constexpr std::size_t n = square<scalar_bytes>;
#pragma GCC unroll 4
  for (std::size_t round = 1; round < n; round *= 2) {
    __m256i mixed[n];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < n / 2; ++i) {
      mixed[2 * i] = interleave_low<scalar_bytes>(lines[i], lines[i + n / 2]);
      mixed[2 * i + 1] = interleave_high<scalar_bytes>(lines[i], lines[i + n / 2]);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < n; ++i) lines[i] = mixed[i];
  }
}

/// The part of a tile that whole pairs of squares cover.
template <std::size_t scalar_bytes>
Tile covered_part(const Tile& tile) {
  constexpr std::size_t n = square<scalar_bytes>;
  Tile part = tile;
  part.tokens -= tile.tokens % (2 * n);
  part.channels -= tile.channels % n;
  return part;
}

template <std::size_t scalar_bytes>
KV_AVX2 void gather_as(const Tile& tile, const std::uint8_t* payload,
                       const std::uint32_t* first_lane, std::uint8_t* rows) {
  constexpr std::size_t n = square<scalar_bytes>;
  const Tile covered = covered_part<scalar_bytes>(tile);
  const std::size_t stride = tile.token_stride;
  for (std::size_t channel = 0; channel < covered.channels; channel += n) {
    for (std::size_t token = 0; token < covered.tokens; token += 2 * n) {
      const std::uint8_t* const from = payload + token * stride + channel * scalar_bytes;
      __m256i lines[n];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < n; ++i) {
        lines[i] = load_halves(from + i * stride, from + (i + n) * stride);
      }
      transpose<scalar_bytes>(lines);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < n; ++i) {
        store(rows + (first_lane[channel + i] + token) * scalar_bytes, lines[i]);
      }
    }
  }
  for_the_rest(tile, covered, [&](const Tile& rest, std::size_t token, std::size_t channel) {
    scalar_kernels.gather(rest, payload + token * stride + channel * scalar_bytes,
                          first_lane + channel, rows + token * scalar_bytes);
  });
}

template <std::size_t scalar_bytes>
KV_AVX2 void scatter_as(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
                        std::uint8_t* payload) {
  constexpr std::size_t n = square<scalar_bytes>;
  const Tile covered = covered_part<scalar_bytes>(tile);
  const std::size_t stride = tile.token_stride;
  for (std::size_t channel = 0; channel < covered.channels; channel += n) {
    for (std::size_t token = 0; token < covered.tokens; token += 2 * n) {
      __m256i lines[n];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < n; ++i) {
        lines[i] = load(rows + (first_lane[channel + i] + token) * scalar_bytes);
      }
      transpose<scalar_bytes>(lines);
      std::uint8_t* const to = payload + token * stride + channel * scalar_bytes;
#pragma GCC unroll 16
      for (std::size_t i = 0; i < n; ++i) {
        store_half(to + i * stride, _mm256_castsi256_si128(lines[i]));
        store_half(to + (i + n) * stride, _mm256_extracti128_si256(lines[i], 1));
      }
    }
  }
  for_the_rest(tile, covered, [&](const Tile& rest, std::size_t token, std::size_t channel) {
    scalar_kernels.scatter(rest, rows + token * scalar_bytes, first_lane + channel,
                           payload + token * stride + channel * scalar_bytes);
  });
}

}  // namespace

void gather(const Tile& tile, const std::uint8_t* payload, const std::uint32_t* first_lane,
            std::uint8_t* rows) {
  switch (tile.scalar_bytes) {
    case 1: return gather_as<1>(tile, payload, first_lane, rows);
    case 2: return gather_as<2>(tile, payload, first_lane, rows);
    default: return gather_as<4>(tile, payload, first_lane, rows);
  }
}

void scatter(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
             std::uint8_t* payload) {
  switch (tile.scalar_bytes) {
    case 1: return scatter_as<1>(tile, rows, first_lane, payload);
    case 2: return scatter_as<2>(tile, rows, first_lane, payload);
    default: return scatter_as<4>(tile, rows, first_lane, payload);
  }
}

}  // namespace kvstrata::codec::avx2
