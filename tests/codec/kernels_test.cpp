// Every vector routine against the scalar one, on the same random input, byte for byte.
#include "codec/kernels.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "codec/code_cost.h"
#include "codec/raw_bits.h"
#include "codec/scalar_format.h"
#include "tests/base/seed.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

constexpr DType all_dtypes[] = {DType::bf16,     DType::fp16, DType::fp8_e4m3,
                                DType::fp8_e5m2, DType::int8, DType::fp32};
constexpr std::size_t table_count = 9;
constexpr std::uint8_t guard = 0xa5;
constexpr std::size_t guard_bytes = 64;

/// Memory with a guard on both sides that must stay untouched.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size), bytes_(size + 2 * guard_bytes, guard) {}

  std::uint8_t* data() { return bytes_.data() + guard_bytes; }
  const std::uint8_t* data() const { return bytes_.data() + guard_bytes; }
  bool intact() const {
    for (std::size_t i = 0; i < guard_bytes; ++i) {
      if (bytes_[i] != guard || bytes_[guard_bytes + size_ + i] != guard) return false;
    }
    return true;
  }
  friend bool operator==(const Guarded&, const Guarded&) = default;

 private:
  std::size_t size_;
  std::vector<std::uint8_t> bytes_;
};

std::vector<std::uint8_t> random_bytes(Random& random, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.bits());
  return bytes;
}

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
    std::vector<TableRecord> records;
    for (std::size_t i = 0; i < table_count; ++i) {
      records.push_back(random_table(random, dtype, sign_coded));
      REQUIRE(find_fault(records.back(), dtype) == nullptr);
    }
    tables = std::make_unique<TableSet>(TableSet::Dimensions{.dtype = dtype, .opaque = true},
                                        records, ByteVector{});
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
  }

  std::size_t lane_count() const { return steps * lanes; }

  DType dtype;
  bool sign_coded;
  std::size_t steps;
  std::unique_ptr<TableSet> tables;
  std::vector<std::uint8_t> unit_table;
  std::vector<std::uint8_t> symbol_list;
};

/// Scalars of any bits, three in four with a key that their table names.
std::vector<std::uint8_t> random_scalars(Random& random, const Input& input) {
  const ScalarFormat format = scalar_format(input.dtype);
  std::vector<std::uint8_t> scalars = random_bytes(random, input.lane_count() * format.bytes);
  for (std::size_t i = 0; i < input.lane_count(); ++i) {
    if (random.one_in(4)) continue;
    const std::size_t symbol = input.symbol_list[i];
    const TableRecord& record = input.tables->records()[input.unit_table[i / unit_lanes]];
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
  std::vector<std::uint8_t> symbol_list;
  std::array<std::uint8_t, lanes> low, high;
  std::ptrdiff_t used;

  friend bool operator==(const Decoded&, const Decoded&) = default;
};

Decoded decode_with(const Kernels& kernels, const Input& input, const RansDecoder& start) {
  RansDecoder decoder = start;
  Decoded decoded{.ok = false, .symbol_list = std::vector<std::uint8_t>(input.lane_count())};
  decoded.ok =
      kernels.decode_symbols(decoder, input.tables->decode_tables(), input.unit_table.data(),
                             input.steps, decoded.symbol_list.data());
  decoded.low = decoder.low;
  decoded.high = decoder.high;
  decoded.used = decoder.next - start.next;
  return decoded;
}

struct Encoded {
  Guarded bytes;
  RansEncoder states;
  std::uint8_t* start;
};

Encoded encode_with(const Kernels& kernels, const Input& input, const RansEncoder& start) {
  const std::size_t size = input.lane_count() + encode_slack_bytes;
  Encoded encoded{Guarded(size), start, nullptr};
  encoded.start =
      kernels.encode(encoded.states, input.tables->encode_tables(), input.unit_table.data(),
                     input.symbol_list.data(), input.steps, encoded.bytes.data() + size);
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
    const Encoded reference = encode_with(scalar_kernels, input, start);
    const std::size_t size = input.lane_count() + encode_slack_bytes;
    const std::uint8_t* const end = reference.bytes.data() + size;
    const auto bytes = static_cast<std::size_t>(end - reference.start);
    for (const Kernels* kernels : vector_kernels) {
      const Encoded encoded = encode_with(*kernels, input, start);
      REQUIRE(encoded.bytes.intact());
      REQUIRE(encoded.bytes.data() + size - encoded.start == static_cast<std::ptrdiff_t>(bytes));
      CHECK(std::memcmp(encoded.start, reference.start, bytes) == 0);
      CHECK(encoded.states.low == reference.states.low);
      CHECK(encoded.states.high == reference.states.high);
    }
    RansDecoder decoder;
    decoder.low = reference.states.low;
    decoder.high = reference.states.high;
    decoder.next = reference.start;
    decoder.end = end;
    for (const std::size_t readable : {std::size_t{0}, guard_bytes}) {
      decoder.readable_end = end + readable;
      const Decoded expected = decode_with(scalar_kernels, input, decoder);
      CHECK(expected.ok);
      CHECK(expected.low == start.low);
      CHECK(expected.high == start.high);
      CHECK(expected.symbol_list == input.symbol_list);
      CHECK(expected.used == static_cast<std::ptrdiff_t>(bytes));
      for (const Kernels* kernels : vector_kernels) {
        CHECK((decode_with(*kernels, input, decoder) == expected));
      }
    }
  });
}

TEST_CASE("A hostile rANS stream is read within bounds, with the same verdict at every level") {
  for_each_input("hostile rans", [](Random& random, const Input& input) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, input.lane_count() / 3}) {
      const std::vector<std::uint8_t> stream = random_bytes(random, bytes);
      const std::vector<std::uint8_t> states = random_bytes(random, 2 * lanes);
      RansDecoder decoder;
      std::memcpy(decoder.low.data(), states.data(), lanes);
      std::memcpy(decoder.high.data(), states.data() + lanes, lanes);
      decoder.next = stream.data();
      decoder.end = decoder.readable_end = stream.data() + bytes;
      const Decoded expected = decode_with(scalar_kernels, input, decoder);
      for (const Kernels* kernels : vector_kernels) {
        const Decoded decoded = decode_with(*kernels, input, decoder);
        CHECK(decoded.ok == expected.ok);
        if (expected.ok) CHECK((decoded == expected));
      }
    }
  });
}

TEST_CASE("Scalars of any bits are cut and joined alike at every level") {
  for_each_input("split and merge", [](Random& random, const Input& input) {
    const std::size_t bytes = input.lane_count() * bytes_per_scalar(input.dtype);
    const std::size_t width = scalar_format(input.dtype).raw_width(input.sign_coded);
    const std::size_t raw_bytes = input.steps * raw_step_bytes(static_cast<std::uint32_t>(width));
    const std::vector<std::uint8_t> scalars = random_scalars(random, input);
    const auto split_with = [&](const Kernels& kernels, Guarded& symbol_list, Guarded& raw,
                                Guarded& escapes) {
      return kernels.split(input.dtype, input.sign_coded, scalars.data(),
                           input.tables->encode_tables(), input.unit_table.data(), input.steps,
                           symbol_list.data(), raw.data(), escapes.data()) -
             escapes.data();
    };
    Guarded symbol_list(input.lane_count()), raw(raw_bytes), escapes(input.lane_count());
    const std::ptrdiff_t escaped = split_with(scalar_kernels, symbol_list, raw, escapes);
    for (const Kernels* kernels : vector_kernels) {
      Guarded symbols_2(input.lane_count()), raw_2(raw_bytes), escapes_2(input.lane_count());
      CHECK(split_with(*kernels, symbols_2, raw_2, escapes_2) == escaped);
      CHECK((symbols_2 == symbol_list));
      CHECK((raw_2 == raw));
      CHECK((escapes_2 == escapes));
    }

    for (const SimdLevel level : {SimdLevel::scalar, SimdLevel::avx2, SimdLevel::avx512}) {
      const auto merge_with = [&](std::ptrdiff_t keys, Guarded& joined) {
        const Escapes left{escapes.data(), escapes.data() + keys};
        return kernels_of(level).merge(input.dtype, input.sign_coded, symbol_list.data(),
                                       input.tables->decode_tables(), input.unit_table.data(),
                                       raw.data(), input.steps, left, joined.data());
      };
      Guarded joined(bytes);
      CHECK(merge_with(escaped, joined) == escapes.data() + escaped);
      CHECK(joined.intact());
      CHECK(std::memcmp(joined.data(), scalars.data(), bytes) == 0);
      if (escaped != 0) CHECK(merge_with(escaped - 1, joined) == nullptr);
      CHECK(joined.intact());
    }
  });
}

/// What a sub-stream consists of, laid out as in a frame.
class EncodedParts {
 public:
  EncodedParts(Random& random, const Input& input) : input_(input) {
    const std::uint32_t width = scalar_format(input.dtype).raw_width(input.sign_coded);
    scalars = random_scalars(random, input);
    std::vector<std::uint8_t> symbol_list(input.lane_count()), escapes(input.lane_count());
    std::vector<std::uint8_t> raw(input.steps * raw_step_bytes(width));
    escapes.resize(static_cast<std::size_t>(
        scalar_kernels.split(input.dtype, input.sign_coded, scalars.data(),
                             input.tables->encode_tables(), input.unit_table.data(), input.steps,
                             symbol_list.data(), raw.data(), escapes.data()) -
        escapes.data()));
    start_.high.fill(1);
    start_.low.fill(0);
    std::vector<std::uint8_t> rans(input.lane_count() + encode_slack_bytes);
    const std::uint8_t* const first =
        scalar_kernels.encode(start_, input.tables->encode_tables(), input.unit_table.data(),
                              symbol_list.data(), input.steps, rans.data() + rans.size());
    bytes_.assign(first, std::as_const(rans).data() + rans.size());
    rans_bytes = bytes_.size();
    escape_count = escapes.size();
    bytes_.insert(bytes_.end(), escapes.begin(), escapes.end());
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }

  /// Decodes with that many bytes of rANS and escapes alone; true if nothing was wrong.
  bool decode(const Kernels& kernels, std::size_t rans, std::size_t escapes, Guarded& out) const {
    StepInput left;
    left.rans.low = start_.low;
    left.rans.high = start_.high;
    left.rans.next = bytes_.data();
    left.rans.end = bytes_.data() + rans;
    left.rans.readable_end = bytes_.data() + bytes_.size();
    left.escapes = {bytes_.data() + rans_bytes, bytes_.data() + rans_bytes + escapes};
    left.raw = bytes_.data() + rans_bytes + escape_count;
    const char* const fault =
        kernels.decode(input_.dtype, input_.sign_coded, left, input_.tables->decode_tables(),
                       input_.unit_table.data(), input_.steps, out.data());
    if (fault != nullptr) return false;
    CHECK(left.rans.next == left.rans.end);
    CHECK(left.escapes.next == left.escapes.end);
    CHECK(left.raw == bytes_.data() + bytes_.size());
    return true;
  }

  std::vector<std::uint8_t> scalars;
  std::size_t rans_bytes = 0, escape_count = 0;

 private:
  const Input& input_;
  RansEncoder start_;
  std::vector<std::uint8_t> bytes_;
};

TEST_CASE("Whole steps are decoded alike at every level, and what is missing is noticed") {
  for_each_input("whole steps", [](Random& random, const Input& input) {
    const EncodedParts parts(random, input);
    for (const SimdLevel level : {SimdLevel::scalar, SimdLevel::avx2, SimdLevel::avx512}) {
      const Kernels& kernels = kernels_of(level);
      CAPTURE(static_cast<int>(level));
      Guarded out(parts.scalars.size());
      REQUIRE(parts.decode(kernels, parts.rans_bytes, parts.escape_count, out));
      CHECK(out.intact());
      CHECK(std::memcmp(out.data(), parts.scalars.data(), parts.scalars.size()) == 0);
      if (parts.rans_bytes != 0) {
        CHECK_FALSE(parts.decode(kernels, parts.rans_bytes - 1, parts.escape_count, out));
      }
      if (parts.escape_count != 0) {
        CHECK_FALSE(parts.decode(kernels, parts.rans_bytes, parts.escape_count - 1, out));
        CHECK_FALSE(parts.decode(kernels, parts.rans_bytes, 0, out));
      }
      CHECK(out.intact());
    }
  });
}

TEST_CASE("Tiles of any size are transposed alike at every level") {
  Random random(test_seed("tiles"));
  for (int round = 0; round < 200; ++round) {
    const std::size_t scalar_bytes = std::size_t{1} << random.below(3);
    const std::size_t channels = 1 + random.below(70), tokens = 1 + random.below(150);
    const Tile tile{scalar_bytes, (channels + random.below(5)) * scalar_bytes, channels, tokens};
    std::vector<std::uint32_t> first_lane;
    for (std::size_t c = 0; c < channels; ++c) {
      first_lane.push_back(static_cast<std::uint32_t>((c * 7 % channels) * tokens));
    }
    for (std::size_t c = 0; c < channels; ++c) {  // 7 may divide the number of channels
      if (channels % 7 == 0) first_lane[c] = static_cast<std::uint32_t>(c * tokens);
    }
    const std::vector<std::uint8_t> payload = random_bytes(random, tile.token_stride * tokens);
    Guarded rows(channels * tokens * scalar_bytes);
    scalar_kernels.gather(tile, payload.data(), first_lane.data(), rows.data());
    Guarded back(payload.size());
    scalar_kernels.scatter(tile, rows.data(), first_lane.data(), back.data());
    for (std::size_t token = 0; token < tokens; ++token) {
      REQUIRE(std::memcmp(back.data() + token * tile.token_stride,
                          payload.data() + token * tile.token_stride,
                          channels * scalar_bytes) == 0);
    }
    for (const Kernels* kernels : vector_kernels) {
      Guarded rows_2(channels * tokens * scalar_bytes), back_2(payload.size());
      kernels->gather(tile, payload.data(), first_lane.data(), rows_2.data());
      CHECK((rows_2 == rows));
      kernels->scatter(tile, rows.data(), first_lane.data(), back_2.data());
      CHECK((back_2 == back));
    }
  }
}
