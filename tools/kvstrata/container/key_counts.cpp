#include "tools/kvstrata/container/key_counts.h"

#include <cmath>
#include <numeric>

namespace kvstrata::tool {

namespace {

template <DType dtype>
void count_of(const codec::Placement& place, ByteView payload, std::span<ChannelCounts> channels) {
  constexpr codec::ScalarFormat format = codec::scalar_format(dtype);
  for (std::uint32_t page = 0; page < place.pages; ++page) {
    for (std::uint32_t head = 0; head < place.heads; ++head) {
      const std::byte* const first =
          payload.data() + place.offset + page * place.page_stride + head * place.head_stride;
      ChannelCounts* const counts = &channels[head * place.head_dim];
      for (std::uint32_t token = 0; token < place.page_tokens; ++token) {
        for (std::uint32_t channel = 0; channel < place.head_dim; ++channel) {
          const std::byte* const scalar =
              first + token * place.token_stride + channel * place.channel_stride;
          const std::uint32_t bits = codec::load_scalar(scalar, format.bytes);
          ++counts[channel][codec::key_bin(format, bits)];
        }
      }
    }
  }
}

}  // namespace

void count_keys(const codec::Placement& place, DType dtype, ByteView payload,
                std::span<ChannelCounts> channels) {
  codec::with_dtype(dtype, [&]<DType constant>() { count_of<constant>(place, payload, channels); });
}

double bits_of(const ChannelCounts& counts, const codec::KeyCounts& pool,
               const codec::ScalarFormat& format) {
  const double all =
      static_cast<double>(std::accumulate(pool.begin(), pool.end(), std::uint64_t{0}));
  double bits = 0;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    if (counts[bin] == 0) continue;
    bits += counts[bin] * std::log2(all / static_cast<double>(pool[bin]));
  }
  return bits + static_cast<double>(scalars_of(counts)) * format.mantissa_bits;
}

double bits_of(const ChannelCounts& counts, const codec::CodeCost& cost,
               const codec::ScalarFormat& format) {
  double bits = 0;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    bits += static_cast<double>(counts[bin]) * cost.of_bin[bin] / codec::cost_one_bit;
  }
  return bits + static_cast<double>(scalars_of(counts)) * format.mantissa_bits;
}

std::uint64_t scalars_of(const ChannelCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

void add_to(codec::KeyCounts& pool, const ChannelCounts& counts) {
  for (std::size_t bin = 0; bin < counts.size(); ++bin) pool[bin] += counts[bin];
}

}  // namespace kvstrata::tool
