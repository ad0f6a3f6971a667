// The codec file's structs as they lie on disk, version 1. See doc/codec-files.md. Plain data, read
// and written by memcpy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvstrata/checksum.h"

namespace kvstrata::tool {

inline constexpr std::uint32_t container_magic = 0x4353564b;  // "KVSC"
inline constexpr std::uint8_t container_version = 1;
inline constexpr std::uint64_t file_bytes_max = std::uint64_t{1} << 62;
inline constexpr std::uint32_t parts_max = 1U << 20;
inline constexpr std::uint32_t sets_max = 4096;
inline constexpr std::uint32_t name_bytes_max = 65535;
inline constexpr std::uint64_t description_bytes_max = 256_MiB;
inline constexpr std::uint32_t no_set = 0xffffffff;

struct ContainerHeader {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t reserved[3];
  std::uint64_t container_bytes;
  std::uint64_t file_bytes;
  std::uint64_t file_xxh3;
  std::uint32_t parts;
  std::uint32_t sets;
  std::uint64_t description_bytes;
  std::uint64_t description_xxh3;
  std::uint64_t header_xxh3;  ///< of all bytes before it
};
static_assert(sizeof(ContainerHeader) == 64 && offsetof(ContainerHeader, header_xxh3) == 56);

struct PartRecord {
  std::uint8_t kind;
  std::uint8_t dtype;
  std::uint16_t reserved;
  std::uint32_t set;
  std::uint64_t at;
  std::uint64_t at_v;
  std::uint64_t bytes;
  std::uint32_t layers;
  std::uint32_t kv_heads;
  std::uint32_t head_dim_k;
  std::uint32_t head_dim_v;
  std::uint32_t tokens;
  std::uint32_t frame_tokens;
  std::uint32_t name_bytes;
  std::uint32_t name_v_bytes;
};
static_assert(sizeof(PartRecord) == 64 && offsetof(PartRecord, tokens) == 48);

struct SetRecord {
  std::uint32_t bytes;
  std::uint32_t reserved;
  std::uint64_t content_hash;
};
static_assert(sizeof(SetRecord) == 16);

inline std::uint64_t header_checksum(const ContainerHeader& header) {
  return xxh3_of_head(header, offsetof(ContainerHeader, header_xxh3));
}

}  // namespace kvstrata::tool
