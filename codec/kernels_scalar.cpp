// The reference: what every other instruction set must reproduce byte for byte.
#include <cstring>

#include "codec/decode_batches.h"
#include "codec/kernels.h"
#include "codec/raw_bits.h"
#include "codec/scalar_format.h"

namespace kvstrata::codec {

namespace {

/// The symbol whose slots hold `slot`, by descending the table's tree.
std::size_t find_symbol(const DecodeTable& table, std::uint32_t slot) {
  const auto biased = static_cast<std::int8_t>(slot ^ 0x80);
  std::size_t node = 1;
  for (int level = 0; level < 4; ++level) {
    node = 2 * node + (biased > static_cast<std::int8_t>(table.tree[node]) ? 1 : 0);
  }
  return node - symbols;
}

bool decode_lane(RansDecoder& decoder, const DecodeTable& table, std::size_t lane,
                 std::uint8_t& symbol_out) {
  const std::uint32_t slot = decoder.low[lane];
  const std::size_t symbol = find_symbol(table, slot);
  std::uint32_t state =
      std::uint32_t{table.frequency[symbol]} * decoder.high[lane] + slot - table.cumulative[symbol];
  state &= 0xffff;
  if (state < 256) {
    if (decoder.next == decoder.end) return false;
    state = state << 8 | *decoder.next++;
  }
  decoder.low[lane] = static_cast<std::uint8_t>(state);
  decoder.high[lane] = static_cast<std::uint8_t>(state >> 8);
  symbol_out = static_cast<std::uint8_t>(symbol);
  return true;
}

bool decode_symbols(RansDecoder& decoder, const DecodeTable* tables, const std::uint8_t* unit_table,
                    std::size_t steps, std::uint8_t* symbols_out) {
  for (std::size_t i = 0; i < steps * lanes; ++i) {
    const DecodeTable& table = tables[unit_table[i / unit_lanes]];
    if (!decode_lane(decoder, table, i % lanes, symbols_out[i])) return false;
  }
  return true;
}

const char* decode(DType dtype, bool sign_coded, StepInput& input, const DecodeTable* tables,
                   const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* scalars) {
  return decode_in_batches(scalar_kernels, dtype, sign_coded, input, tables, unit_table, steps,
                           scalars);
}

std::uint8_t* encode(RansEncoder& encoder, const EncodeTable* tables,
                     const std::uint8_t* unit_table, const std::uint8_t* symbols_in,
                     std::size_t steps, std::uint8_t* out) {
  for (std::size_t i = steps * lanes; i-- > 0;) {
    const std::size_t lane = i % lanes, symbol = symbols_in[i];
    const EncodeTable& table = tables[unit_table[i / unit_lanes]];
    const std::uint32_t frequency = table.frequency[symbol];
    std::uint32_t state = encoder.low[lane] | std::uint32_t{encoder.high[lane]} << 8;
    if (state >= frequency << 8) {
      *--out = static_cast<std::uint8_t>(state);
      state >>= 8;
    }
    state = (state / frequency << 8) + state % frequency + table.cumulative[symbol];
    encoder.low[lane] = static_cast<std::uint8_t>(state);
    encoder.high[lane] = static_cast<std::uint8_t>(state >> 8);
  }
  return out;
}

template <DType dtype>
const std::uint8_t* merge_as(bool sign_coded, const std::uint8_t* symbols_in,
                             const DecodeTable* tables, const std::uint8_t* unit_table,
                             const std::uint8_t* raw, std::size_t steps, Escapes escapes,
                             std::uint8_t* scalars) {
  constexpr ScalarFormat format = scalar_format(dtype);
  const std::uint32_t width = format.raw_width(sign_coded);
  const std::uint8_t escape_symbol = first_escape(sign_coded);
  std::array<std::uint32_t, lanes> values;
  for (std::size_t step = 0; step < steps; ++step) {
    unpack_step(raw + step * raw_step_bytes(width), width, values.data());
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::size_t i = step * lanes + lane, symbol = symbols_in[i] % symbols;
      const DecodeTable& table = tables[unit_table[i / unit_lanes]];
      if (symbol >= escape_symbol && escapes.next == escapes.end) return nullptr;
      const std::uint32_t key = symbol >= escape_symbol ? *escapes.next++ : table.key[symbol];
      const std::uint32_t sign =
          sign_coded ? table.sign[symbol] : values[lane] >> format.mantissa_bits;
      const std::uint32_t bits = format.join(key, sign, format.mantissa(values[lane]));
      std::memcpy(scalars + i * format.bytes, &bits, format.bytes);
    }
  }
  return escapes.next;
}

template <DType dtype>
std::uint8_t* split_as(bool sign_coded, const std::uint8_t* scalars, const EncodeTable* tables,
                       const std::uint8_t* unit_table, std::size_t steps, std::uint8_t* symbols_out,
                       std::uint8_t* raw, std::uint8_t* escapes) {
  constexpr ScalarFormat format = scalar_format(dtype);
  const std::uint32_t width = format.raw_width(sign_coded);
  const std::uint8_t escape_symbol = first_escape(sign_coded);
  std::array<std::uint32_t, lanes> values;
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::size_t i = step * lanes + lane;
      const std::uint32_t bits = load_scalar(scalars + i * format.bytes, format.bytes);
      const std::uint32_t key = format.key(bits), sign = format.sign(bits);
      values[lane] = format.mantissa(bits) | (sign_coded ? 0 : sign << format.mantissa_bits);
      symbols_out[i] = tables[unit_table[i / unit_lanes]].symbol[sign][key];
      if (symbols_out[i] >= escape_symbol) *escapes++ = static_cast<std::uint8_t>(key);
    }
    pack_step(values.data(), width, raw + step * raw_step_bytes(width));
  }
  return escapes;
}

const std::uint8_t* merge(DType dtype, bool sign_coded, const std::uint8_t* symbols_in,
                          const DecodeTable* tables, const std::uint8_t* unit_table,
                          const std::uint8_t* raw, std::size_t steps, const Escapes& escapes,
                          std::uint8_t* scalars) {
  return with_dtype(dtype, [&]<DType type>() {
    return merge_as<type>(sign_coded, symbols_in, tables, unit_table, raw, steps, escapes, scalars);
  });
}

std::uint8_t* split(DType dtype, bool sign_coded, const std::uint8_t* scalars,
                    const EncodeTable* tables, const std::uint8_t* unit_table, std::size_t steps,
                    std::uint8_t* symbols_out, std::uint8_t* raw, std::uint8_t* escapes) {
  return with_dtype(dtype, [&]<DType type>() {
    return split_as<type>(sign_coded, scalars, tables, unit_table, steps, symbols_out, raw,
                          escapes);
  });
}

/// Copies scalar by scalar; `Bytes` is a constant so that each copy is one load and store.
template <std::size_t Bytes, typename Copy>
void for_each_scalar(const Tile& tile, const std::uint32_t* first_lane, Copy&& copy) {
  for (std::size_t token = 0; token < tile.tokens; ++token) {
    for (std::size_t channel = 0; channel < tile.channels; ++channel) {
      copy((first_lane[channel] + token) * Bytes, token * tile.token_stride + channel * Bytes);
    }
  }
}

template <std::size_t Bytes>
void gather_as(const Tile& tile, const std::uint8_t* payload, const std::uint32_t* first_lane,
               std::uint8_t* rows) {
  for_each_scalar<Bytes>(tile, first_lane, [&](std::size_t row_at, std::size_t payload_at) {
    std::memcpy(rows + row_at, payload + payload_at, Bytes);
  });
}

template <std::size_t Bytes>
void scatter_as(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
                std::uint8_t* payload) {
  for_each_scalar<Bytes>(tile, first_lane, [&](std::size_t row_at, std::size_t payload_at) {
    std::memcpy(payload + payload_at, rows + row_at, Bytes);
  });
}

void gather(const Tile& tile, const std::uint8_t* payload, const std::uint32_t* first_lane,
            std::uint8_t* rows) {
  switch (tile.scalar_bytes) {
    case 1: return gather_as<1>(tile, payload, first_lane, rows);
    case 2: return gather_as<2>(tile, payload, first_lane, rows);
    default: return gather_as<4>(tile, payload, first_lane, rows);
  }
}

void scatter(const Tile& tile, const std::uint8_t* rows, const std::uint32_t* first_lane,
             std::uint8_t* payload) {
  switch (tile.scalar_bytes) {
    case 1: return scatter_as<1>(tile, rows, first_lane, payload);
    case 2: return scatter_as<2>(tile, rows, first_lane, payload);
    default: return scatter_as<4>(tile, rows, first_lane, payload);
  }
}

}  // namespace

const Kernels scalar_kernels{decode, decode_symbols, encode, merge, split, gather, scatter};

}  // namespace kvstrata::codec
