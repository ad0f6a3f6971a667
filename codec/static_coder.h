// The static coder: one sub-stream to its encoded bytes and back. Stateless functions, safe from
// any thread.
#pragma once

#include <cstdint>

#include "codec/geometry.h"
#include "codec/kernels.h"
#include "codec/static_tables.h"
#include "kvstrata/bytes.h"
#include "kvstrata/result.h"

namespace kvstrata::codec {

/// What encode_static wrote. `bytes` is 0 if the sub-stream does not shrink by 1/64.
struct StaticEncoded {
  std::uint64_t bytes = 0;
  std::uint8_t table = 0;  ///< opaque shapes: the table it chose
};

/// Encodes the sub-stream at `place` into `out`, which holds at least place.bytes().
StaticEncoded encode_static(const Kernels& kernels, const TableSet& tables, std::uint32_t substream,
                            const Placement& place, const std::uint8_t* payload, MutableBytes out);

/// Decodes `encoded` to `place` of the payload. `corrupt` if its grammar is broken; other damage
/// gives other scalars, which the sub-stream's checksum finds.
Status decode_static(const Kernels& kernels, const TableSet& tables, std::uint32_t substream,
                     std::uint8_t table, const Placement& place, ByteView encoded,
                     std::uint8_t* payload);

}  // namespace kvstrata::codec
