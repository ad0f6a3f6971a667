// Rows: a sub-stream's scalars in coding order, one row of tokens per channel, and their copy from
// and to the payload. Stateless functions.
#pragma once

#include <cstdint>

#include "codec/geometry.h"
#include "codec/kernels.h"

namespace kvstrata::codec {

/// Copies every scalar at `place` of the payload to rows: channel c from lane first_lane[c] on.
void gather_rows(const Kernels& kernels, const Placement& place, const std::uint8_t* payload,
                 const std::uint32_t* first_lane, std::uint8_t* rows);

/// The reverse. Lanes between rows are not looked at.
void scatter_rows(const Kernels& kernels, const Placement& place, const std::uint8_t* rows,
                  const std::uint32_t* first_lane, std::uint8_t* payload);

}  // namespace kvstrata::codec
