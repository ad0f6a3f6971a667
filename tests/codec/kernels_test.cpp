// Every vector routine against the scalar one, on the same random input, byte for byte; all memory
// ends where it may not be touched any more.
#include "codec/kernels.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "codec/code_cost.h"
#include "codec/raw_bits.h"
#include "codec/scalar_format.h"
#include "tests/base/seed.h"
#include "tests/codec/guarded_buffer.h"
#include "tests/codec/round_trip.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr DType all_dtypes[] = {DType::bf16,     DType::fp16, DType::fp8_e4m3,
                                DType::fp8_e5m2, DType::int8, DType::fp32};
constexpr std::size_t table_count = 9;
constexpr std::uint8_t untouched = 0xa5;

/// Of exactly the size that a kernel may read or write.
using Bytes = GuardedVector<std::uint8_t>;

Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.bits());
  return bytes;
}

/// The first `size` of them.
Bytes first_of(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

/// The first `count` keys behind a byte, so that they are somewhere even if there are none.
class LoneEscapes {
 public:
  LoneEscapes(const Bytes& keys, std::size_t count) : bytes_(1 + count) {
    std::copy_n(keys.begin(), count, bytes_.begin() + 1);
  }
  Escapes all() const { return {bytes_.data() + 1, bytes_.data() + bytes_.size()}; }

 private:
  Bytes bytes_;
};

/// Tables over keys that lie together, far apart, or are few.
TableRecord random_table(Random& random, DType dtype, bool sign_coded) {
  const ScalarFormat format = scalar_format(dtype);
  TableRecord record{};
  do {
    KeyCounts counts{};
    const std::size_t keys = 1U << format.key_bits, centre = random.below(keys);
    const std::size_t spread = random.one_in(3) ? keys : 1 + random.below(12);
    for (std::uint64_t i = 0; i < 1 + random.below(30); ++i) {
      const std::size_t sign = format.sign_bits == 0 ? 0 : random.below(2);
      counts[sign * 256 + (centre + random.below(spread)) % keys] += random.below(1000);
    }
    if (sign_coded) counts[random.below(2) * 256 + centre] += 1000000;  // one sign prevails
    record = build_table(counts, format);
  } while ((record.sign_coded != 0) != sign_coded);
  return record;
}

/// One input for all kernels of a dtype: tables, units, and steps of symbols that fit them.
struct Input {
  Input(Random& random, DType type, bool coded, std::size_t step_count)
      : dtype(type), sign_coded(coded), steps(step_count) {
    for (std::size_t i = 0; i < table_count; ++i) {
      records.push_back(random_table(random, dtype, sign_coded));
      REQUIRE(find_fault(records.back(), dtype) == nullptr);
    }
    const TableSet set({.dtype = dtype, .opaque = true}, records, ByteVector{});
    decode_tables.assign(set.decode_tables(), set.decode_tables() + table_count);
    encode_tables.assign(set.encode_tables(), set.encode_tables() + table_count);
    const auto any_table = [&] { return static_cast<std::uint8_t>(random.below(table_count)); };
    for (std::size_t step = 0; step < steps; ++step) {
      // One table a step, often that of the step before; or one a unit.
      const std::uint8_t first = step > 0 && random.one_in(2) ? unit_table.back() : any_table();
      const bool mixed = random.one_in(3);
      for (std::size_t unit = 0; unit < step_units; ++unit) {
        unit_table.push_back(mixed && random.one_in(3) ? any_table() : first);
      }
    }
    for (std::size_t i = 0; i < steps * lanes; ++i) {
      const TableRecord& record = records[unit_table[i / unit_lanes]];
      std::size_t slot = random.below(256), symbol = 0;
      while (slot >= record.frequency[symbol]) slot -= record.frequency[symbol++];
      symbol_list.push_back(static_cast<std::uint8_t>(symbol));
    }
    unit_table.shrink_to_fit();
    symbol_list.shrink_to_fit();
  }

  std::size_t lane_count() const { return steps * lanes; }

  DType dtype;
  bool sign_coded;
  std::size_t steps;
  std::vector<TableRecord> records;
  GuardedVector<DecodeTable> decode_tables;
  GuardedVector<EncodeTable> encode_tables;
  Bytes unit_table;
  Bytes symbol_list;
};

/// Scalars of any bits, three in four with a key that their table names.
Bytes random_scalars(Random& random, const Input& input) {
  const ScalarFormat format = scalar_format(input.dtype);
  Bytes scalars = random_bytes(random, input.lane_count() * format.bytes);
  for (std::size_t i = 0; i < input.lane_count(); ++i) {
    if (random.one_in(4)) continue;
    const std::size_t symbol = input.symbol_list[i];
    const TableRecord& record = input.records[input.unit_table[i / unit_lanes]];
    const auto mantissa = static_cast<std::uint32_t>(random.bits()) & format.mantissa(~0U);
    const auto sign = input.sign_coded ? record.sign_mask >> symbol & 1U
                                       : static_cast<std::uint32_t>(random.below(2));
    const std::uint32_t bits = format.join(record.key[symbol], sign, mantissa);
    std::memcpy(scalars.data() + i * format.bytes, &bits, format.bytes);
  }
  return scalars;
}

/// What a decoder leaves behind.
struct Decoded {
  bool ok;
  Bytes symbol_list;
  std::array<std::uint8_t, lanes> low, high;
  std::ptrdiff_t used;

  friend bool operator==(const Decoded&, const Decoded&) = default;
};

Decoded decode_with(const Kernels& kernels, const Input& input, const RansDecoder& start) {
  RansDecoder decoder = start;
  Decoded decoded{.ok = false, .symbol_list = Bytes(input.lane_count())};
  decoded.ok = kernels.decode_symbols(decoder, input.decode_tables.data(), input.unit_table.data(),
                                      input.steps, decoded.symbol_list.data());
  decoded.low = decoder.low;
  decoded.high = decoder.high;
  decoded.used = decoder.next - start.next;
  return decoded;
}

/// Scalars of a stream, of which raw bits and escaped keys are all 0; none if it is too short.
Bytes scalars_with(const Kernels& kernels, const Input& input, const RansDecoder& start) {
  const ScalarFormat format = scalar_format(input.dtype);
  const LoneEscapes keys(Bytes(input.lane_count()), input.lane_count());
  const Bytes raw(input.steps * raw_step_bytes(format.raw_width(input.sign_coded)));
  StepInput left{start, keys.all(), raw.data()};
  Bytes scalars(input.lane_count() * format.bytes);
  const char* const fault =
      kernels.decode(input.dtype, input.sign_coded, left, input.decode_tables.data(),
                     input.unit_table.data(), input.steps, scalars.data());
  return fault == nullptr ? scalars : Bytes();
}

struct Encoded {
  Bytes room;
  RansEncoder states;
  std::size_t bytes;  ///< at the end of the room
};

/// In a room of so many bytes.
Encoded encode_with(const Kernels& kernels, const Input& input, const RansEncoder& start,
                    std::size_t room) {
  Encoded encoded{Bytes(room), start, 0};
  std::uint8_t* const end = encoded.room.data() + room;
  encoded.bytes = static_cast<std::size_t>(
      end - kernels.encode(encoded.states, input.encode_tables.data(), input.unit_table.data(),
                           input.symbol_list.data(), input.steps, end));
  return encoded;
}

/// Runs `check` for each type, way of the sign, and several numbers of steps.
template <typename Check>
void for_each_input(const char* test, Check&& check) {
  Random random(test_seed(test));
  for (const DType dtype : all_dtypes) {
    for (const bool sign_coded : {false, true}) {
      if (sign_coded && scalar_format(dtype).sign_bits == 0) continue;
      for (const std::size_t steps : {1, 2, 7, 40}) {
        const Input input(random, dtype, sign_coded, steps);
        CAPTURE(to_string(dtype));
        CAPTURE(sign_coded);
        CAPTURE(steps);
        check(random, input);
      }
    }
  }
}

const Kernels* const vector_kernels[] = {&kernels_of(SimdLevel::avx2),
                                         &kernels_of(SimdLevel::avx512)};

}  // namespace

TEST_CASE("rANS gives the same bytes and states at every level, and comes back") {
  for_each_input("rans", [](Random& random, const Input& input) {
    RansEncoder start;
    start.high.fill(1);
    for (std::uint8_t& low : start.low) low = static_cast<std::uint8_t>(random.bits());
    const Encoded reference =
        encode_with(scalar_kernels, input, start, input.lane_count() + encode_slack_bytes);
    const Bytes encoded(reference.room.end() - static_cast<std::ptrdiff_t>(reference.bytes),
                        reference.room.end());
    for (const Kernels* kernels : vector_kernels) {
      const Encoded again =
          encode_with(*kernels, input, start, encoded.size() + encode_slack_bytes);
      REQUIRE(again.bytes == encoded.size());
      CHECK(std::equal(encoded.begin(), encoded.end(), again.room.begin() + encode_slack_bytes));
      CHECK(again.states.low == reference.states.low);
      CHECK(again.states.high == reference.states.high);
    }
    RansDecoder decoder;
    decoder.low = reference.states.low;
    decoder.high = reference.states.high;
    for (const std::size_t readable : {0, 1, 64, 200}) {
      Bytes stream(encoded.size() + readable, untouched);
      std::ranges::copy(encoded, stream.begin());
      decoder.next = stream.data();
      decoder.end = stream.data() + encoded.size();
      decoder.readable_end = decoder.end + readable;
      const Decoded expected = decode_with(scalar_kernels, input, decoder);
      CHECK(expected.ok);
      CHECK(expected.low == start.low);
      CHECK(expected.high == start.high);
      CHECK(expected.symbol_list == input.symbol_list);
      CHECK(expected.used == static_cast<std::ptrdiff_t>(encoded.size()));
      for (const Kernels* kernels : vector_kernels) {
        CHECK((decode_with(*kernels, input, decoder) == expected));
      }
    }
  });
}

TEST_CASE("A hostile rANS stream is read within bounds, with the same verdict at every level") {
  for_each_input("hostile rans", [](Random& random, const Input& input) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, lanes - 1 - random.below(60),
                                    lanes - 1, lanes, input.lane_count() / 3}) {
      for (const bool starved : {false, true}) {  // most lanes: they take a byte in the first step
        const Bytes stream = random_bytes(random, bytes), states = random_bytes(random, 2 * lanes);
        RansDecoder decoder;
        std::memcpy(decoder.low.data(), states.data(), lanes);
        std::memcpy(decoder.high.data(), states.data() + lanes, lanes);
        if (starved) decoder.high.fill(1);
        decoder.next = stream.data();
        decoder.end = decoder.readable_end = stream.data() + bytes;
        const Decoded expected = decode_with(scalar_kernels, input, decoder);
        const Bytes scalars = scalars_with(scalar_kernels, input, decoder);
        for (const Kernels* kernels : vector_kernels) {
          CHECK((scalars_with(*kernels, input, decoder) == scalars));
          const Decoded decoded = decode_with(*kernels, input, decoder);
          CHECK(decoded.ok == expected.ok);
          if (expected.ok) CHECK((decoded == expected));
        }
      }
    }
  });
}

TEST_CASE("Scalars of any bits are cut and joined alike at every level") {
  for_each_input("split and merge", [](Random& random, const Input& input) {
    const std::size_t bytes = input.lane_count() * bytes_per_scalar(input.dtype);
    const std::size_t width = scalar_format(input.dtype).raw_width(input.sign_coded);
    const std::size_t raw_bytes = input.steps * raw_step_bytes(static_cast<std::uint32_t>(width));
    const Bytes scalars = random_scalars(random, input);
    const auto split_with = [&](const Kernels& kernels, Bytes& symbol_list, Bytes& raw,
                                Bytes& escapes) {
      return kernels.split(input.dtype, input.sign_coded, scalars.data(),
                           input.encode_tables.data(), input.unit_table.data(), input.steps,
                           symbol_list.data(), raw.data(), escapes.data()) -
             escapes.data();
    };
    Bytes symbol_list(input.lane_count()), raw(raw_bytes), escapes(input.lane_count(), untouched);
    const std::ptrdiff_t escaped = split_with(scalar_kernels, symbol_list, raw, escapes);
    for (const Kernels* kernels : vector_kernels) {
      Bytes symbols_2(input.lane_count()), raw_2(raw_bytes);
      Bytes escapes_2(input.lane_count(), untouched);
      CHECK(split_with(*kernels, symbols_2, raw_2, escapes_2) == escaped);
      CHECK((symbols_2 == symbol_list));
      CHECK((raw_2 == raw));
      CHECK((escapes_2 == escapes));
    }

    for (const SimdLevel level : all_levels) {
      const auto merge_with = [&](std::ptrdiff_t keys, Bytes& joined) {
        const LoneEscapes lone(escapes, static_cast<std::size_t>(keys));
        const Escapes left = lone.all();
        const std::uint8_t* const next = kernels_of(level).merge(
            input.dtype, input.sign_coded, symbol_list.data(), input.decode_tables.data(),
            input.unit_table.data(), raw.data(), input.steps, left, joined.data());
        CHECK((next == nullptr || next == left.end));
        return next != nullptr;
      };
      Bytes joined(bytes);
      CHECK(merge_with(escaped, joined));
      CHECK((joined == scalars));
      if (escaped != 0) CHECK_FALSE(merge_with(escaped - 1, joined));
    }
  });
}

/// What a sub-stream consists of.
class EncodedParts {
 public:
  EncodedParts(Random& random, const Input& input)
      : scalars(random_scalars(random, input)), input_(input) {
    const std::uint32_t width = scalar_format(input.dtype).raw_width(input.sign_coded);
    Bytes symbol_list(input.lane_count()), keys(input.lane_count());
    raw_.resize(input.steps * raw_step_bytes(width));
    const std::uint8_t* const keys_end = scalar_kernels.split(
        input.dtype, input.sign_coded, scalars.data(), input.encode_tables.data(),
        input.unit_table.data(), input.steps, symbol_list.data(), raw_.data(), keys.data());
    escapes = first_of(keys, static_cast<std::size_t>(keys_end - keys.data()));
    start_.high.fill(1);
    start_.low.fill(0);
    Bytes room(input.lane_count() + encode_slack_bytes);
    std::uint8_t* const end = room.data() + room.size();
    rans.assign(scalar_kernels.encode(start_, input.encode_tables.data(), input.unit_table.data(),
                                      symbol_list.data(), input.steps, end),
                end);
    for (const Bytes* part : {&rans, &escapes, &raw_}) {
      together_.insert(together_.end(), part->begin(), part->end());
    }
    together_.shrink_to_fit();
  }

  /// Decodes with that many bytes of rANS and escapes alone; true if nothing was wrong. The parts
  /// lie as in a frame, or each at the end of what may be read.
  bool decode(const Kernels& kernels, std::size_t rans_bytes, std::size_t escape_count, bool apart,
              Bytes& out) const {
    const Bytes rans_alone = first_of(rans, rans_bytes);
    const LoneEscapes escapes_alone(escapes, escape_count);
    const std::uint8_t* const frame = together_.data();
    StepInput left;
    left.rans.low = start_.low;
    left.rans.high = start_.high;
    left.rans.next = apart ? rans_alone.data() : frame;
    left.rans.end = left.rans.next + rans_bytes;
    left.rans.readable_end = apart ? left.rans.end : frame + together_.size();
    left.escapes = {frame + rans.size(), frame + rans.size() + escape_count};
    if (apart) left.escapes = escapes_alone.all();
    left.raw = apart ? raw_.data() : frame + rans.size() + escapes.size();
    const std::uint8_t* const raw_end = left.raw + raw_.size();
    const char* const fault =
        kernels.decode(input_.dtype, input_.sign_coded, left, input_.decode_tables.data(),
                       input_.unit_table.data(), input_.steps, out.data());
    if (fault != nullptr) return false;
    CHECK(left.rans.next == left.rans.end);
    CHECK(left.escapes.next == left.escapes.end);
    CHECK(left.raw == raw_end);
    return true;
  }

  Bytes scalars, rans, escapes;

 private:
  const Input& input_;
  RansEncoder start_;
  Bytes raw_, together_;
};

TEST_CASE("Whole steps are decoded alike at every level, and what is missing is noticed") {
  for_each_input("whole steps", [](Random& random, const Input& input) {
    const EncodedParts parts(random, input);
    const std::size_t rans = parts.rans.size(), escapes = parts.escapes.size();
    for (const SimdLevel level : all_levels) {
      for (const bool apart : {false, true}) {
        CAPTURE(static_cast<int>(level));
        CAPTURE(apart);
        Bytes out(parts.scalars.size());
        const auto decode = [&](std::size_t rans_bytes, std::size_t escape_count) {
          return parts.decode(kernels_of(level), rans_bytes, escape_count, apart, out);
        };
        REQUIRE(decode(rans, escapes));
        CHECK((out == parts.scalars));
        if (rans != 0) CHECK_FALSE(decode(rans - 1, escapes));
        if (escapes != 0) {
          CHECK_FALSE(decode(rans, escapes - 1));
          CHECK_FALSE(decode(rans, 0));
        }
      }
    }
  });
}

TEST_CASE("Tiles of any size are transposed alike at every level") {
  Random random(test_seed("tiles"));
  for (int round = 0; round < 200; ++round) {
    const std::size_t scalar_bytes = std::size_t{1} << random.below(3);
    const std::size_t channels = 1 + random.below(70), tokens = 1 + random.below(150);
    const Tile tile{scalar_bytes, (channels + random.below(5)) * scalar_bytes, channels, tokens};
    GuardedVector<std::uint32_t> first_lane(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      first_lane[c] = static_cast<std::uint32_t>((c * 7 % channels) * tokens);
    }
    for (std::size_t c = 0; c < channels; ++c) {  // 7 may divide the number of channels
      if (channels % 7 == 0) first_lane[c] = static_cast<std::uint32_t>(c * tokens);
    }
    // Up to the last scalar: behind it may be the end of a payload.
    const Bytes payload =
        random_bytes(random, tile.token_stride * (tokens - 1) + channels * scalar_bytes);
    Bytes rows(channels * tokens * scalar_bytes);
    scalar_kernels.gather(tile, payload.data(), first_lane.data(), rows.data());
    Bytes back(payload.size(), untouched);
    scalar_kernels.scatter(tile, rows.data(), first_lane.data(), back.data());
    for (std::size_t token = 0; token < tokens; ++token) {
      REQUIRE(std::memcmp(back.data() + token * tile.token_stride,
                          payload.data() + token * tile.token_stride,
                          channels * scalar_bytes) == 0);
    }
    for (const Kernels* kernels : vector_kernels) {
      Bytes rows_2(rows.size()), back_2(payload.size(), untouched);
      kernels->gather(tile, payload.data(), first_lane.data(), rows_2.data());
      CHECK((rows_2 == rows));
      kernels->scatter(tile, rows.data(), first_lane.data(), back_2.data());
      CHECK((back_2 == back));
    }
  }
}
