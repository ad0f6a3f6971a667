// The bound of any coder that knows the distribution of keys and signs by channel group alone.
#pragma once

#include "bench/codec/kv_blocks.h"

namespace kvstrata::bench {

/// Bits a scalar: the empirical first-order entropy of (sign, key) over the channels that share a
/// table of `tables`, and the mantissa as it is.
double entropy_bits(const KvBlocks& blocks, const codec::StaticTables& tables);

}  // namespace kvstrata::bench
