// The bytes of a package file: doc/package-format.md. Plain structs, little-endian, without gaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvstrata/keys.h"

namespace kvstrata::predictor {

inline constexpr std::uint32_t package_magic = 0x5053'564b;  // "KVSP"
inline constexpr std::uint16_t package_version = 1;
inline constexpr std::size_t package_header_bytes = 4096, package_alignment = 4096;
inline constexpr std::uint32_t package_entries_max = 64;
inline constexpr std::uint64_t section_bytes_max = std::uint64_t{1} << 40;

enum class SectionKind : std::uint16_t {
  config = 1,
  embedding = 2,
  rope = 3,
  vectors = 4,
  codes = 5,
  scales = 6,
  statistics = 16,
};
inline constexpr std::uint16_t weight_sections = 6;  ///< kinds 1..6, each once

struct PackageHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t file_bytes;
  std::uint32_t entries;
  std::uint32_t reserved;
  Hash256 weights_hash;       ///< of the entries of weight sections
  std::uint64_t header_xxh3;  ///< of header_bytes, this field as 0
};
static_assert(sizeof(PackageHeader) == 64 && offsetof(PackageHeader, header_xxh3) == 56);

struct PackageEntry {
  SectionKind kind;
  std::uint16_t reserved;
  std::uint32_t index;  ///< of statistics
  std::uint64_t offset, bytes;
  Hash256 hash;
};
static_assert(sizeof(PackageEntry) == 56);
static_assert(sizeof(PackageHeader) + package_entries_max * sizeof(PackageEntry) <=
              package_header_bytes);

enum class Arithmetic : std::uint32_t { integers = 1, e4m3 = 2 };

inline constexpr std::uint32_t has_bias = 1, has_qk_norm = 2, has_bf16_rope = 4, all_flags = 7;

struct PackageConfig {
  Arithmetic arithmetic;
  std::uint8_t weight_bits, activation_bits;
  std::uint16_t group;
  std::uint32_t layers, hidden, intermediate, vocab;
  std::uint32_t heads, kv_heads, head_dim, rotary_dim;
  std::uint32_t positions, window;
  float eps, softmax_scale, rope_inverse;
  std::uint32_t flags;
  Hash256 fingerprint;
};
static_assert(sizeof(PackageConfig) == 96 && offsetof(PackageConfig, fingerprint) == 64);

}  // namespace kvstrata::predictor
