#include "bench/codec/entropy.h"

#include <vector>

#include "codec/geometry.h"
#include "codec/static_tables.h"
#include "tools/kvstrata/container/key_counts.h"

namespace kvstrata::bench {

double entropy_bits(const KvBlocks& blocks, const codec::StaticTables& tables) {
  const auto& set = static_cast<const codec::TableSet&>(tables);
  const codec::ScalarFormat format = codec::scalar_format(blocks.shape.dtype);
  std::vector<std::vector<tool::ChannelCounts>> counts(blocks.shape.substreams());
  std::vector<codec::KeyCounts> groups(set.size());
  const auto group_of = [&](std::uint32_t s, std::size_t channel) -> codec::KeyCounts& {
    return groups[std::to_integer<std::size_t>(set.channel_tables(s)[channel])];
  };
  for (std::uint32_t s = 0; s < counts.size(); ++s) {
    const codec::Placement place = codec::placement_of(blocks.shape, s);
    counts[s].resize(place.channels());
    for (const ByteVector& payload : blocks.payloads) {
      tool::count_keys(place, blocks.shape.dtype, payload, counts[s]);
    }
    for (std::size_t c = 0; c < counts[s].size(); ++c) tool::add_to(group_of(s, c), counts[s][c]);
  }
  double bits = 0, scalars = 0;
  for (std::uint32_t s = 0; s < counts.size(); ++s) {
    for (std::size_t c = 0; c < counts[s].size(); ++c) {
      bits += tool::bits_of(counts[s][c], group_of(s, c), format);
      scalars += static_cast<double>(tool::scalars_of(counts[s][c]));
    }
  }
  return bits / scalars;
}

}  // namespace kvstrata::bench
