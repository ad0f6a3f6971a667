// KeyCounts of many channels: how often each holds each (sign, key), and what follows from that.
// Bits are those of whole scalars: what is not counted, the mantissa, is added as it is.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/code_cost.h"
#include "codec/geometry.h"
#include "codec/scalar_format.h"
#include "kvstrata/bytes.h"

namespace kvstrata::tool {

/// Counts of one channel by codec::key_bin().
using ChannelCounts = std::array<std::uint32_t, codec::key_bins>;

/// Adds the scalars of a sub-stream of `payload` to its channels' counts.
void count_keys(const codec::Placement& place, DType dtype, ByteView payload,
                std::span<ChannelCounts> channels);

/// Bits of all scalars of `counts`, coded with the distribution of `pool`, which they are part of.
double bits_of(const ChannelCounts& counts, const codec::KeyCounts& pool,
               const codec::ScalarFormat& format);

/// Bits of all scalars of `counts` with the codes of a table.
double bits_of(const ChannelCounts& counts, const codec::CodeCost& cost,
               const codec::ScalarFormat& format);

std::uint64_t scalars_of(const ChannelCounts& counts);
void add_to(codec::KeyCounts& pool, const ChannelCounts& counts);

}  // namespace kvstrata::tool
