#include "codec/key_histograms.h"

#include <algorithm>
#include <numeric>

#include "codec/kernels.h"
#include "codec/rows.h"
#include "codec/scratch.h"

namespace kvstrata::codec {

namespace {

constexpr std::uint64_t samples_max = std::uint64_t{1} << 24;

/// Counts every `step`-th of `tokens` scalars.
void count_row(const ScalarFormat& format, const std::uint8_t* row, std::size_t tokens,
               std::size_t step, KeyCounts& counts) {
  for (std::size_t token = 0; token < tokens; token += step) {
    ++counts[key_bin(format, load_scalar(row + token * format.bytes, format.bytes))];
  }
}

std::size_t sample_step(const BlockShape& shape, std::size_t payloads) {
  const std::uint64_t scalars = shape.raw_bytes() / bytes_per_scalar(shape.dtype) * payloads;
  const std::uint64_t step = (scalars + samples_max - 1) / samples_max;
  const std::uint64_t tokens = shape.is_opaque() ? opaque_piece_bytes : shape.tokens;
  return std::clamp<std::uint64_t>(step, 1, tokens);
}

const std::uint8_t* bytes_at(ByteView payload) {
  return reinterpret_cast<const std::uint8_t*>(payload.data());
}

}  // namespace

void KeyHistograms::end_channel(KeyCounts& counts) {
  constexpr std::uint64_t count_max = (1U << 23) - 1;
  for (std::uint32_t bin = 0; bin < key_bins; ++bin) {
    if (counts[bin] == 0) continue;
    samples_ += counts[bin];
    const auto count = static_cast<std::uint32_t>(std::min(counts[bin], count_max));
    entries_.push_back({.bin = bin & 0x1ff, .count = count & 0x7fffff});
  }
  first_entry_.push_back(entries_.size());
  counts.fill(0);
}

KeyHistograms KeyHistograms::of(const BlockShape& shape, std::span<const ByteView> payloads) {
  KeyHistograms histograms;
  const ScalarFormat format = scalar_format(shape.dtype);
  const std::size_t step = sample_step(shape, payloads.size());
  KeyCounts counts{};
  for (std::uint32_t index = 0; index < shape.substreams(); ++index) {
    const Placement place = placement_of(shape, index);
    const std::size_t channels = place.channels(), tokens = place.tokens();
    const std::size_t bytes = place.scalars() * place.scalar_bytes;
    std::vector<std::uint32_t> first_lane(channels);
    for (std::size_t c = 0; c < channels; ++c)
      first_lane[c] = static_cast<std::uint32_t>(c * tokens);
    Scratch scratch(payloads.size() * Scratch::rounded(bytes));
    std::vector<const std::uint8_t*> rows;
    for (const ByteView payload : payloads) {
      std::uint8_t* const taken = scratch.take(bytes);
      gather_rows(kernels_of(best_simd_level()), place, bytes_at(payload), first_lane.data(),
                  taken);
      rows.push_back(taken);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      for (const std::uint8_t* row : rows) {
        count_row(format, row + c * tokens * place.scalar_bytes, tokens, step, counts);
        if (shape.is_opaque()) histograms.end_channel(counts);
      }
      if (!shape.is_opaque()) histograms.end_channel(counts);
    }
  }
  return histograms;
}

}  // namespace kvstrata::codec
