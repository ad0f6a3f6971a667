#include "codec/static_coder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "codec/code_cost.h"
#include "codec/decode_batches.h"
#include "codec/raw_bits.h"
#include "codec/rows.h"
#include "codec/scratch.h"
#include "codec/static_plan.h"

namespace kvstrata::codec {

namespace {

const std::uint8_t* bytes_at(ByteView bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

/// The sizes of a sub-stream's raw bits.
struct RawArea {
  std::size_t sign_step_bytes, step_bytes;  ///< of one step with coded signs, without
  std::size_t total, last_step_bytes;
  std::size_t moved;  ///< bytes of the last step that lie in the end states

  RawArea(const StaticPlan& plan, DType dtype) {
    const ScalarFormat format = scalar_format(dtype);
    const bool last_coded = plan.sign_steps == plan.steps;
    sign_step_bytes = raw_step_bytes(format.raw_width(true));
    step_bytes = raw_step_bytes(format.raw_width(false));
    total = plan.sign_steps * sign_step_bytes + (plan.steps - plan.sign_steps) * step_bytes;
    last_step_bytes = last_coded ? sign_step_bytes : step_bytes;
    moved = std::min(lanes, last_step_bytes);
  }
  std::size_t stored() const { return total - moved; }
};

/// Calls visit(scalar in the rows, bits it has) for each padding lane: symbol 0 of its table, and
/// no raw bits.
template <typename Byte, typename Visit>
void for_each_padding(const StaticPlan& plan, const TableSet& tables, const ScalarFormat& format,
                      Byte* rows, Visit&& visit) {
  for (const StaticPlan::Padding& padding : plan.paddings) {
    for (std::size_t lane = padding.first; lane < padding.last; ++lane) {
      const TableRecord& record = tables.records()[plan.unit_table[lane / unit_lanes]];
      visit(rows + lane * format.bytes, format.join(record.key[0], record.sign_mask & 1U, 0));
    }
  }
}

void fill_padding(const StaticPlan& plan, const TableSet& tables, const ScalarFormat& format,
                  std::uint8_t* rows) {
  for_each_padding(plan, tables, format, rows, [&](std::uint8_t* scalar, std::uint32_t bits) {
    std::memcpy(scalar, &bits, format.bytes);
  });
}

/// So that no bit of a frame is without meaning.
bool padding_is_filled(const StaticPlan& plan, const TableSet& tables, const ScalarFormat& format,
                       const std::uint8_t* rows) {
  bool filled = true;
  for_each_padding(plan, tables, format, rows, [&](const std::uint8_t* scalar, std::uint32_t bits) {
    filled &= std::memcmp(scalar, &bits, format.bytes) == 0;
  });
  return filled;
}

/// How often an opaque piece holds each (sign, key).
template <DType dtype>
KeyCounts count_keys(const Placement& place, const std::uint8_t* payload) {
  constexpr ScalarFormat format = scalar_format(dtype);
  constexpr std::size_t chains = 4;  // neighbours are often alike: no sum waits for the one before
  std::array<std::array<std::uint32_t, key_bins>, chains> counts{};  // a piece is 1 MiB
  const std::uint8_t* scalar = payload + place.offset;
  for (std::uint64_t i = 0; i < place.scalars(); ++i, scalar += format.bytes) {
    ++counts[i % chains][key_bin(format, load_scalar(scalar, format.bytes))];
  }
  KeyCounts sums{};
  for (const auto& chain : counts) {
    for (std::size_t bin = 0; bin < key_bins; ++bin) sums[bin] += chain[bin];
  }
  return sums;
}

/// The table that codes an opaque piece in the fewest bits.
std::uint8_t choose_table(const TableSet& tables, const Placement& place,
                          const std::uint8_t* payload) {
  const KeyCounts counts = with_dtype(
      tables.dimensions().dtype, [&]<DType dtype>() { return count_keys<dtype>(place, payload); });
  std::size_t best = 0;
  std::uint64_t best_cost = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const CodeCost cost = CodeCost::of(tables.records()[t]);
    std::uint64_t total = 0;
    for (std::size_t bin = 0; bin < key_bins; ++bin) total += counts[bin] * cost.of_bin[bin];
    if (total < best_cost) best = t, best_cost = total;
  }
  return static_cast<std::uint8_t>(best);
}

/// The encoder's working memory and the parts it makes there.
struct EncodeBuffers {
  explicit EncodeBuffers(const StaticPlan& plan, std::size_t scalar_bytes, std::size_t raw_bytes)
      : scratch(Scratch::rounded(plan.lane_count() * scalar_bytes) +
                3 * Scratch::rounded(plan.lane_count()) + Scratch::rounded(encode_slack_bytes) +
                Scratch::rounded(raw_bytes)),
        rows(scratch.take(plan.lane_count() * scalar_bytes)),
        symbol_list(scratch.take(plan.lane_count())),
        escapes(scratch.take(plan.lane_count())),
        raw(scratch.take(raw_bytes)),
        rans(scratch.take(plan.lane_count() + encode_slack_bytes)),
        rans_end(rans + plan.lane_count() + encode_slack_bytes) {}

  Scratch scratch;
  std::uint8_t *rows, *symbol_list, *escapes, *raw, *rans, *rans_end;
  std::uint8_t* escapes_end = nullptr;
};

void split_all(const Kernels& kernels, const TableSet& tables, const StaticPlan& plan,
               const RawArea& area, EncodeBuffers& buffers) {
  const DType dtype = tables.dimensions().dtype;
  const std::size_t sign_lanes = plan.sign_steps * lanes;
  buffers.escapes_end =
      kernels.split(dtype, true, buffers.rows, tables.encode_tables(), plan.unit_table.data(),
                    plan.sign_steps, buffers.symbol_list, buffers.raw, buffers.escapes);
  buffers.escapes_end =
      kernels.split(dtype, false, buffers.rows + sign_lanes * bytes_per_scalar(dtype),
                    tables.encode_tables(), plan.unit_table.data() + plan.sign_steps * step_units,
                    plan.steps - plan.sign_steps, buffers.symbol_list + sign_lanes,
                    buffers.raw + plan.sign_steps * area.sign_step_bytes, buffers.escapes_end);
}

/// Appends parts to the output of an encoder that knows they fit.
class Appender {
 public:
  explicit Appender(MutableBytes out) : out_(out) {}

  void append(const void* bytes, std::size_t size) {
    if (size != 0) std::memcpy(out_.data() + used_, bytes, size);
    used_ += size;
  }
  std::uint64_t used() const { return used_; }

 private:
  MutableBytes out_;
  std::size_t used_ = 0;
};

/// A parsed static sub-stream.
struct StaticParts {
  StaticHeader header;
  const std::uint8_t* rans;
  const std::uint8_t* escapes;
  const std::uint8_t* raw;
  const std::uint8_t* tail;
};

Error corrupt(std::uint32_t substream, const char* what) {
  return {ErrorKind::corrupt, "static sub-stream " + std::to_string(substream) + ": " + what};
}

/// False if the lengths do not add up.
bool find_parts(ByteView encoded, std::uint64_t raw_stored, std::uint64_t tail,
                StaticParts& parts) {
  if (encoded.size() < sizeof(StaticHeader)) return false;
  std::memcpy(&parts.header, encoded.data(), sizeof(StaticHeader));
  const std::uint64_t rans = parts.header.rans_bytes, escapes = parts.header.escapes;
  if (encoded.size() != sizeof(StaticHeader) + rans + escapes + raw_stored + tail) return false;
  parts.rans = bytes_at(encoded) + sizeof(StaticHeader);
  parts.escapes = parts.rans + rans;
  parts.raw = parts.escapes + escapes;
  parts.tail = parts.raw + raw_stored;
  return true;
}

/// The memory a sub-stream goes to, asked for while its rows are decoded: it is seldom in a cache,
/// and the lines of a row lie far apart.
class Destination {
 public:
  Destination(const Placement& place, const std::uint8_t* payload)
      : next_(payload + place.offset), end_(next_ + (place.contiguous() ? place.bytes() : 0)) {}

  void prefetch(std::size_t bytes) {
    const std::uint8_t* const stop = next_ + std::min<std::size_t>(bytes, end_ - next_);
    for (; next_ < stop; next_ += cache_line_bytes) {
      __builtin_prefetch(next_, 0, second_level);
    }
    next_ = stop;
  }

 private:
  static constexpr std::size_t cache_line_bytes = 64;
  static constexpr int second_level = 2;  // the first is full of rows
  const std::uint8_t *next_, *end_;
};

/// Decodes a sub-stream into rows.
class RowDecoder {
 public:
  RowDecoder(const Kernels& kernels, const TableSet& tables, const StaticPlan& plan,
             const StaticParts& parts, const RawArea& area, Destination destination)
      : kernels_(kernels), tables_(tables), plan_(plan), area_(area), destination_(destination) {
    input_.rans.low = parts.header.state_low;
    input_.rans.high = parts.header.state_high;
    input_.rans.next = parts.rans;
    input_.rans.end = parts.escapes;
    input_.rans.readable_end = parts.raw + area.stored();
    input_.escapes = {parts.escapes, parts.raw};
    input_.raw = parts.raw;
  }

  /// nullptr, or what is wrong.
  const char* decode_to(std::uint8_t* rows) {
    if (const char* fault = find_fault_at_start()) return fault;
    const std::size_t before_last = plan_.steps - 1;
    const std::size_t sign_steps = std::min(plan_.sign_steps, before_last);
    if (const char* fault = decode(0, sign_steps, true, rows)) return fault;
    if (const char* fault = decode(sign_steps, before_last, false, rows)) return fault;
    if (const char* fault = decode_last(rows)) return fault;
    return find_fault_at_end();
  }

 private:
  const char* find_fault_at_start() const {
    // Kernels mask a wide key or let it run into the sign; no level is to decide.
    const std::uint32_t key_bits = scalar_format(tables_.dimensions().dtype).key_bits;
    for (const std::uint8_t* key = input_.escapes.next; key != input_.escapes.end; ++key) {
      if (*key >> key_bits != 0) return "an escaped key beyond the dtype";
    }
    const bool low_state =
        std::ranges::find(input_.rans.high, std::uint8_t{0}) != input_.rans.high.end();
    return low_state ? "a state below 256" : nullptr;
  }

  const char* decode(std::size_t first, std::size_t end, bool sign_coded, std::uint8_t* rows) {
    constexpr std::size_t steps_at_once = 32;
    const DType dtype = tables_.dimensions().dtype;
    const std::size_t step_bytes = lanes * bytes_per_scalar(dtype);
    for (; first < end; first += steps_at_once) {
      const std::size_t steps = std::min(steps_at_once, end - first);
      destination_.prefetch(steps * step_bytes);
      const char* const fault = kernels_.decode(dtype, sign_coded, input_, tables_.decode_tables(),
                                                plan_.unit_table.data() + first * step_units, steps,
                                                rows + first * step_bytes);
      if (fault != nullptr) return fault;
    }
    return nullptr;
  }

  /// Part of its raw bits are in the end states, which only it brings forth.
  const char* decode_last(std::uint8_t* rows) {
    const DType dtype = tables_.dimensions().dtype;
    const std::size_t first = plan_.steps - 1;
    const std::uint8_t* const units = plan_.unit_table.data() + first * step_units;
    alignas(64) std::array<std::uint8_t, lanes> last_symbols;
    if (!kernels_.decode_symbols(input_.rans, tables_.decode_tables(), units, 1,
                                 last_symbols.data())) {
      return rans_too_short;
    }
    std::array<std::uint8_t, raw_step_bytes(24)> raw;
    std::memcpy(raw.data(), input_.rans.low.data(), area_.moved);
    std::memcpy(raw.data() + area_.moved, input_.raw, area_.last_step_bytes - area_.moved);
    input_.escapes.next = kernels_.merge(
        dtype, plan_.sign_steps == plan_.steps, last_symbols.data(), tables_.decode_tables(), units,
        raw.data(), 1, input_.escapes, rows + first * lanes * bytes_per_scalar(dtype));
    return input_.escapes.next == nullptr ? escapes_too_few : nullptr;
  }

  const char* find_fault_at_end() const {
    if (input_.rans.next != input_.rans.end) return "rANS bytes left over";
    if (input_.escapes.next != input_.escapes.end) return "escapes left over";
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const bool expected =
          input_.rans.high[lane] == 1 && (lane < area_.moved || input_.rans.low[lane] == 0);
      if (!expected) return "wrong end state";
    }
    return nullptr;
  }

  const Kernels& kernels_;
  const TableSet& tables_;
  const StaticPlan& plan_;
  const RawArea& area_;
  Destination destination_;
  StepInput input_;
};

}  // namespace

StaticEncoded encode_static(const Kernels& kernels, const TableSet& tables, std::uint32_t substream,
                            const Placement& place, const std::uint8_t* payload, MutableBytes out) {
  if (place.scalars() == 0) return {};
  const DType dtype = tables.dimensions().dtype;
  const std::uint8_t table =
      tables.dimensions().opaque ? choose_table(tables, place, payload) : std::uint8_t{0};
  const std::shared_ptr<const StaticPlan> kept = plan_for(tables, substream, table, place);
  const StaticPlan& plan = *kept;
  const RawArea area(plan, dtype);
  EncodeBuffers buffers(plan, place.scalar_bytes, area.total);
  gather_rows(kernels, place, payload, plan.first_lane.data(), buffers.rows);
  fill_padding(plan, tables, scalar_format(dtype), buffers.rows);
  split_all(kernels, tables, plan, area, buffers);

  std::uint8_t* const last_raw = buffers.raw + area.total - area.last_step_bytes;
  RansEncoder encoder;
  encoder.low.fill(0);
  encoder.high.fill(1);
  std::memcpy(encoder.low.data(), last_raw, area.moved);
  std::uint8_t* const rans = kernels.encode(encoder, tables.encode_tables(), plan.unit_table.data(),
                                            buffers.symbol_list, plan.steps, buffers.rans_end);

  StaticHeader header{};
  header.rans_bytes = static_cast<std::uint32_t>(buffers.rans_end - rans);
  header.escapes = static_cast<std::uint32_t>(buffers.escapes_end - buffers.escapes);
  header.state_low = encoder.low;
  header.state_high = encoder.high;
  const std::uint64_t bytes =
      sizeof header + header.rans_bytes + header.escapes + area.stored() + place.tail_bytes;
  if (bytes > place.bytes() - place.bytes() / 64) return {};
  Appender appender(out);
  appender.append(&header, sizeof header);
  appender.append(rans, header.rans_bytes);
  appender.append(buffers.escapes, header.escapes);
  appender.append(buffers.raw, area.total - area.last_step_bytes);
  appender.append(last_raw + area.moved, area.last_step_bytes - area.moved);
  appender.append(payload + place.offset + place.bytes() - place.tail_bytes, place.tail_bytes);
  KV_CHECK(appender.used() == bytes, "a sub-stream's parts do not add up");
  return {bytes, table};
}

Status decode_static(const Kernels& kernels, const TableSet& tables, std::uint32_t substream,
                     std::uint8_t table, const Placement& place, ByteView encoded,
                     std::uint8_t* payload) {
  if (place.scalars() == 0) return corrupt(substream, "nothing to code");
  if (table >= tables.size()) return corrupt(substream, "no such table");
  const std::shared_ptr<const StaticPlan> kept = plan_for(tables, substream, table, place);
  const StaticPlan& plan = *kept;
  const RawArea area(plan, tables.dimensions().dtype);
  StaticParts parts;
  if (!find_parts(encoded, area.stored(), place.tail_bytes, parts)) {
    return corrupt(substream, "lengths do not add up");
  }
  const std::size_t row_bytes = plan.lane_count() * place.scalar_bytes;
  Scratch scratch(Scratch::rounded(row_bytes));
  std::uint8_t* const rows = scratch.take(row_bytes);
  RowDecoder decoder(kernels, tables, plan, parts, area, Destination(place, payload));
  if (const char* fault = decoder.decode_to(rows)) return corrupt(substream, fault);
  const ScalarFormat format = scalar_format(tables.dimensions().dtype);
  if (!padding_is_filled(plan, tables, format, rows)) return corrupt(substream, "padding");
  scatter_rows(kernels, place, rows, plan.first_lane.data(), payload);
  std::memcpy(payload + place.offset + place.bytes() - place.tail_bytes, parts.tail,
              place.tail_bytes);
  return {};
}

}  // namespace kvstrata::codec
