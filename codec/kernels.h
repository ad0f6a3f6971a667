// Kernels: the static codec's inner loops, once per instruction set. Every set reads and writes the
// same bytes; tests/codec/kernels_test.cpp holds each against the scalar one. Stateless functions.
// Lane order, symbols and raw bits are those of doc/frame-format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codec/codec.h"
#include "codec/static_format.h"
#include "codec/static_tables.h"

namespace kvstrata::codec {

/// The states of all lanes as two planes, and what is left to read.
struct RansDecoder {
  alignas(64) std::array<std::uint8_t, lanes> low;
  alignas(64) std::array<std::uint8_t, lanes> high;
  const std::uint8_t* next = nullptr;
  const std::uint8_t* end = nullptr;           ///< of the rANS bytes
  const std::uint8_t* readable_end = nullptr;  ///< of memory that may be loaded, not below `end`
};

/// Escaped keys not yet used.
struct Escapes {
  const std::uint8_t* next = nullptr;
  const std::uint8_t* end = nullptr;
};

/// What is left to decode of a sub-stream; a kernel moves it on.
struct StepInput {
  RansDecoder rans;
  Escapes escapes;
  const std::uint8_t* raw = nullptr;  ///< whole steps of raw bits
};

struct RansEncoder {
  alignas(64) std::array<std::uint8_t, lanes> low;
  alignas(64) std::array<std::uint8_t, lanes> high;
};

/// Bytes below the output of `encode` that a kernel may overwrite.
inline constexpr std::size_t encode_slack_bytes = 64;

/// A block of adjacent channels by tokens in the payload: scalar (token, channel) is at
/// payload + token · token_stride + channel · scalar_bytes. Its rows in coding order: that of
/// channel c starts at rows + first_lane[c] · scalar_bytes.
struct Tile {
  std::size_t scalar_bytes, token_stride, channels, tokens;
};

/// Calls visit(tile, first token, first channel) for what is left of a tile whose first tokens and
/// channels are done as far as `covered` says.
template <typename Visit>
void for_the_rest(const Tile& tile, const Tile& covered, Visit&& visit) {
  Tile rest = tile;
  rest.tokens -= covered.tokens;
  if (rest.tokens != 0) visit(rest, covered.tokens, std::size_t{0});
  rest.tokens = covered.tokens;
  rest.channels -= covered.channels;
  if (rest.tokens != 0 && rest.channels != 0) visit(rest, std::size_t{0}, covered.channels);
}

struct Kernels {
  /// Decodes `steps` steps, all with coded signs or all without, to scalars. nullptr, or what is
  /// wrong with the input. It is what decode_symbols() and merge() do together.
  const char* (*decode)(DType dtype, bool sign_coded, StepInput& input, const DecodeTable* tables,
                        const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* scalars);

  /// Decodes `steps` steps with the tables of `unit_table` (8 a step) into symbols, one byte a
  /// lane. False if the stream ends too early.
  bool (*decode_symbols)(RansDecoder& decoder, const DecodeTable* tables,
                         const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* symbols);

  /// Encodes `steps` steps of symbols, the last first, downwards from `out_end`, one byte a symbol
  /// at most; returns where the bytes start.
  std::uint8_t* (*encode)(RansEncoder& encoder, const EncodeTable* tables,
                          const std::uint8_t* unit_table, const std::uint8_t* symbols,
                          std::size_t steps, std::uint8_t* out_end);

  /// Joins what symbols stand for, escaped keys and raw bits to scalars. Returns the first escape
  /// that is left, or nullptr if there are too few.
  const std::uint8_t* (*merge)(DType dtype, bool sign_coded, const std::uint8_t* symbols,
                               const DecodeTable* tables, const std::uint8_t* unit_table,
                               const std::uint8_t* raw, std::size_t steps, const Escapes& escapes,
                               std::uint8_t* scalars);

  /// Cuts scalars into symbols and raw bits; escaped keys go to `escapes`. Returns their end.
  std::uint8_t* (*split)(DType dtype, bool sign_coded, const std::uint8_t* scalars,
                         const EncodeTable* tables, const std::uint8_t* unit_table,
                         std::size_t steps, std::uint8_t* symbols, std::uint8_t* raw,
                         std::uint8_t* escapes);

  /// Copies a tile of the payload to rows, and back.
  void (*gather)(const Tile& tile, const std::uint8_t* payload, const std::uint32_t* first_lane,
                 std::uint8_t* rows);
  void (*scatter)(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
                  std::uint8_t* payload);
};

/// The best level this CPU has and this build knows, whatever KVSTRATA_SIMD says.
SimdLevel detected_simd_level();
/// The same for kernels that multiply: they also need FMA, at the highest level VNNI and CD.
SimdLevel detected_product_level();
/// The kernels of `level`, or of the best level below it that this build and CPU have.
const Kernels& kernels_of(SimdLevel level);

extern const Kernels scalar_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;    ///< only where the CPU has AVX2
extern const Kernels avx512_kernels;  ///< only where the CPU has AVX-512 with VBMI2
#endif

}  // namespace kvstrata::codec
