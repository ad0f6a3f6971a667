#include "bench/codec/entropy.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/code_cost.h"
#include "codec/geometry.h"
#include "codec/static_tables.h"

namespace kvstrata::bench {

namespace {

/// Counts one sub-stream of one payload.
void count(const codec::Placement& place, const codec::ScalarFormat& format, ByteView groups,
           ByteView payload, std::vector<codec::KeyCounts>& counts) {
  for (std::uint32_t channel = 0; channel < place.channels(); ++channel) {
    codec::KeyCounts& group = counts[std::to_integer<std::size_t>(groups[channel])];
    const std::uint64_t first = place.offset + channel / place.head_dim * place.head_stride +
                                channel % place.head_dim * place.channel_stride;
    for (std::uint32_t token = 0; token < place.tokens(); ++token) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &payload[first + token * place.token_stride], format.bytes);
      ++group[codec::key_bin(format, bits)];
    }
  }
}

}  // namespace

double entropy_bits(const KvBlocks& blocks, const codec::StaticTables& tables) {
  const auto& set = static_cast<const codec::TableSet&>(tables);
  const codec::ScalarFormat format = codec::scalar_format(blocks.shape.dtype);
  std::vector<codec::KeyCounts> counts(set.size());
  for (const ByteVector& payload : blocks.payloads) {
    for (std::uint32_t s = 0; s < blocks.shape.substreams(); ++s) {
      count(codec::placement_of(blocks.shape, s), format, set.channel_tables(s), payload, counts);
    }
  }
  double bits = 0, scalars = 0;
  for (const codec::KeyCounts& group : counts) {
    double total = 0;
    for (const std::uint64_t n : group) total += static_cast<double>(n);
    for (const std::uint64_t n : group) {
      if (n != 0) bits += static_cast<double>(n) * std::log2(total / static_cast<double>(n));
    }
    scalars += total;
  }
  return bits / scalars + format.mantissa_bits;
}

}  // namespace kvstrata::bench
