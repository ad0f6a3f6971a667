// The static codec's structs as they lie in frames and in serialised tables, version 1. See
// doc/frame-format.md. Plain data, read and written by memcpy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvstrata::codec {

inline constexpr std::uint32_t tables_magic = 0x5453564b;  // "KVST"
inline constexpr std::uint8_t tables_version = 1;
inline constexpr std::size_t tables_max = 256;

inline constexpr std::size_t symbols = 16;
inline constexpr std::uint32_t frequency_sum = 256;
inline constexpr std::size_t lanes = 128;      ///< interleaved rANS states
inline constexpr std::size_t unit_lanes = 16;  ///< lanes that share one table
inline constexpr std::size_t step_units = lanes / unit_lanes;

struct TablesHeader {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t dtype;
  std::uint8_t opaque;
  std::uint8_t reserved_0;
  std::uint32_t layers;
  std::uint32_t channels_k;
  std::uint32_t channels_v;
  std::uint16_t table_count;
  std::uint16_t reserved_1;
  std::uint64_t body_xxh3;
};
static_assert(sizeof(TablesHeader) == 32 && offsetof(TablesHeader, body_xxh3) == 24);

struct TableRecord {
  std::array<std::uint8_t, symbols> frequency;
  std::array<std::uint8_t, symbols> key;
  std::uint16_t sign_mask;
  std::uint8_t sign_coded;
  std::uint8_t reserved;
};
static_assert(sizeof(TableRecord) == 36);

struct StaticHeader {
  std::uint32_t rans_bytes;
  std::uint32_t escapes;
  std::array<std::uint8_t, lanes> state_low;
  std::array<std::uint8_t, lanes> state_high;
};
static_assert(sizeof(StaticHeader) == 264);

}  // namespace kvstrata::codec
