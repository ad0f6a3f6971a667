#include "codec/linear/cell_coder.h"

#include <algorithm>
#include <cstring>

#include "codec/linear/cell_scalar.h"
#include "codec/linear/linear_kernels.h"

namespace kvstrata::codec {

namespace {

constexpr std::size_t lengths_bytes = 12;

std::uint32_t load_u32(ByteView bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void append(ByteVector& out, const T& values) {
  const auto bytes = std::as_bytes(std::span(values));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

CellEncoder::CellEncoder(DType dtype, const CellTables& tables, std::uint64_t scalars,
                         SimdLevel level)
    : coding_(dtype, tables), level_(level) {
  sink_.lanes = cell_lanes_of(scalars);
  sink_.coded.reserve(scalars);
}

void CellEncoder::put(std::span<const std::uint32_t> patterns, const Guesses& guesses) {
  linear_kernels_of(level_).encode(sink_, coding_, guesses, patterns);
}

ByteVector CellEncoder::finish() {
  std::vector<std::uint32_t> states(sink_.lanes, cell_state_min);
  std::vector<std::uint16_t> words;  // the last first
  for (std::size_t i = sink_.coded.size(); i-- > 0;) {
    const CellSink::Coded& coded = sink_.coded[i];
    const CellTables::Entry entry = coding_.tables->row(coded.context)[coded.symbol];
    std::uint32_t& state = states[coded.lane];
    if (state >= std::uint64_t{entry.frequency} << (32 - cell_frequency_bits)) {
      words.push_back(static_cast<std::uint16_t>(state));
      state >>= 16;
    }
    state =
        (state / entry.frequency << cell_frequency_bits) + state % entry.frequency + entry.begin;
  }
  std::ranges::reverse(words);
  const ByteVector raw = sink_.raw.take(), rare = sink_.rare.take();
  const std::array<std::uint32_t, 3> lengths{static_cast<std::uint32_t>(words.size()),
                                             static_cast<std::uint32_t>(raw.size()),
                                             static_cast<std::uint32_t>(rare.size())};
  ByteVector out;
  out.reserve(lengths_bytes + 4 * states.size() + 2 * words.size() + raw.size() + rare.size());
  append(out, lengths);
  append(out, states);
  append(out, words);
  append(out, raw);
  append(out, rare);
  return out;
}

Result<CellDecoder> CellDecoder::open(DType dtype, const CellTables& tables, ByteView chain,
                                      std::uint64_t scalars, SimdLevel level) {
  const Error broken(ErrorKind::corrupt, "cell chain: its lengths do not add up");
  const std::size_t lanes = cell_lanes_of(scalars);
  const std::size_t head_bytes = lengths_bytes + 4 * lanes;
  if (chain.size() < head_bytes) return broken;
  const std::uint64_t words = load_u32(chain, 0), raw = load_u32(chain, 4),
                      rare = load_u32(chain, 8);
  if (chain.size() != head_bytes + 2 * words + raw + rare) return broken;
  CellDecoder decoder(dtype, tables, level);
  CellSource& source = decoder.source_;
  source.lanes = lanes;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    source.states[lane] = load_u32(chain, lengths_bytes + 4 * lane);
    source.failed |= source.states[lane] < cell_state_min;
  }
  decoder.streams_.resize(2 * words + raw + rare + 3 * stream_padding);
  std::uint8_t* to = decoder.streams_.data();
  const std::byte* from = chain.data() + head_bytes;
  const auto take = [&](std::uint64_t bytes) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    from += bytes;
    return std::exchange(to, to + bytes + stream_padding);
  };
  source.words = reinterpret_cast<const std::uint16_t*>(take(2 * words));
  source.words_end = source.words + words;
  source.raw = BitReader(take(raw), raw);
  source.rare = BitReader(take(rare), rare);
  return decoder;
}

bool CellDecoder::get(const Guesses& guesses, std::span<std::uint32_t> patterns) {
  if (!source_.failed) linear_kernels_of(level_).decode(source_, coding_, guesses, patterns);
  source_.failed |= source_.raw.overrun() || source_.rare.overrun();
  return !source_.failed;
}

bool CellDecoder::at_end() const {
  const bool states_back = std::all_of(
      source_.states.begin(), source_.states.begin() + static_cast<std::ptrdiff_t>(source_.lanes),
      [](std::uint32_t state) { return state == cell_state_min; });
  return !source_.failed && states_back && source_.words == source_.words_end &&
         source_.raw.at_end() && source_.rare.at_end();
}

}  // namespace kvstrata::codec
