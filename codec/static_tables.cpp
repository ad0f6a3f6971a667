#include "codec/static_tables.h"

#include <algorithm>
#include <bitset>
#include <span>
#include <string>
#include <utility>

#include "codec/scalar_format.h"
#include "kvstrata/checksum.h"

namespace kvstrata::codec {

namespace {

Error corrupt(const std::string& what) {
  return {ErrorKind::corrupt, "static tables: " + what};
}

DecodeTable decode_table_of(const TableRecord& record) {
  DecodeTable table{};
  std::array<std::uint32_t, symbols> start{};
  for (std::size_t s = 1; s < symbols; ++s) start[s] = start[s - 1] + record.frequency[s - 1];
  for (std::size_t s = 0; s < symbols; ++s) {
    table.frequency[s] = record.frequency[s];
    table.cumulative[s] = static_cast<std::uint8_t>(start[s]);
    table.key[s] = record.key[s];
    table.sign[s] = static_cast<std::uint8_t>(record.sign_mask >> s & 1);
    table.low_byte[s] = static_cast<std::uint8_t>(table.key[s] << 7);
    table.high_byte[s] = static_cast<std::uint8_t>(table.sign[s] << 7 | table.key[s] >> 1);
    std::fill_n(table.symbol_of_slot.begin() + start[s], record.frequency[s],
                static_cast<std::uint8_t>(s));
  }
  for (std::size_t level = 0; level < 4; ++level) {
    const std::size_t width = symbols >> level;
    for (std::size_t i = 0; i < symbols / width; ++i) {
      const std::uint32_t threshold = start[i * width + width / 2];
      table.tree[(std::size_t{1} << level) + i] =
          static_cast<std::uint8_t>((threshold - 1) ^ 0x80);  // thresholds are 1..256
    }
  }
  return table;
}

/// The least key from which 16 (mod 256) reach all keys that `named` marks; 256 if there is none.
std::size_t find_window(const std::bitset<256>& named) {
  for (std::size_t base = 0; base < 256; ++base) {
    std::size_t reached = 0;
    for (std::size_t i = 0; i < symbols; ++i) reached += named[(base + i) % 256] ? 1U : 0U;
    if (reached == named.count()) return base;
  }
  return 256;
}

/// The forms of the symbol table that shuffles read.
void make_window(EncodeTable& table, bool sign_coded) {
  const std::array<std::uint8_t, 2> escape{first_escape(sign_coded), 15};
  std::bitset<256> named;
  for (std::size_t sign = 0; sign < 2; ++sign) {
    for (std::size_t key = 0; key < 256; ++key) {
      if (table.symbol[sign][key] < first_escape(sign_coded)) named.set(key);
    }
  }
  const std::size_t base = find_window(named);
  table.windowed = base < 256;
  table.window_base.fill(static_cast<std::uint8_t>(base));
  for (std::size_t sign = 0; sign < 2; ++sign) {
    for (std::size_t i = 0; i < symbols; ++i) {
      table.window[sign][i] = table.symbol[sign][(base + i) % 256] ^ escape[sign];
    }
  }
}

EncodeTable encode_table_of(const TableRecord& record) {
  EncodeTable table{};
  const bool sign_coded = record.sign_coded != 0;
  const std::uint8_t escape = first_escape(sign_coded);
  table.symbol[0].fill(escape);
  table.symbol[1].fill(sign_coded ? std::uint8_t{15} : escape);
  std::uint32_t start = 0;
  for (std::size_t s = 0; s < symbols; ++s) {
    const std::uint32_t frequency = record.frequency[s];
    const std::uint32_t reciprocal = frequency < 2 ? 65535 : 65536 / frequency;
    table.frequency[s] = record.frequency[s];
    table.cumulative[s] = static_cast<std::uint8_t>(start);
    table.reciprocal_low[s] = static_cast<std::uint8_t>(reciprocal);
    table.reciprocal_high[s] = static_cast<std::uint8_t>(reciprocal >> 8);
    start += frequency;
    if (s >= escape || frequency == 0) continue;
    const auto symbol = static_cast<std::uint8_t>(s);
    const std::size_t sign = record.sign_mask >> s & 1;
    table.symbol[sign][record.key[s]] = symbol;
    if (!sign_coded) table.symbol[1][record.key[s]] = symbol;
  }
  make_window(table, sign_coded);
  return table;
}

const char* find_header_fault(const TablesHeader& header) {
  if (header.magic != tables_magic) return "no magic";
  if (to_string(static_cast<DType>(header.dtype)) == "unknown") return "unknown dtype";
  if (header.opaque > 1 || header.reserved_0 != 0 || header.reserved_1 != 0)
    return "reserved bytes";
  if (header.table_count < 1 || header.table_count > tables_max) return "number of tables";
  const bool no_channels = header.layers == 0 && header.channels_k == 0 && header.channels_v == 0;
  if ((header.opaque != 0) != no_channels) return "dimensions";
  if (!no_channels && (header.layers == 0 || header.channels_k == 0)) return "dimensions";
  return nullptr;
}

}  // namespace

const char* find_fault(const TableRecord& record, DType dtype) {
  const ScalarFormat format = scalar_format(dtype);
  const bool sign_coded = record.sign_coded != 0;
  if (record.sign_coded > format.sign_bits || record.reserved != 0) return "reserved bytes";
  const std::uint8_t escape = first_escape(sign_coded);
  std::uint32_t sum = 0;
  std::uint32_t signs_allowed = sign_coded ? 0x8000 : 0;
  std::bitset<512> seen;
  for (std::size_t s = 0; s < symbols; ++s) {
    sum += record.frequency[s];
    const bool named = s < escape && record.frequency[s] != 0;
    if (!named && record.key[s] != 0) return "a key without a symbol";
    if (!named && s >= escape && record.frequency[s] == 0) return "an escape of frequency 0";
    if (!named) continue;
    if (record.key[s] >> format.key_bits != 0) return "a key beyond the dtype";
    if (sign_coded) signs_allowed |= 1U << s;
    const std::size_t pair = (record.sign_mask >> s & 1) * 256U + record.key[s];
    if (seen[pair]) return "two symbols of one key";
    seen[pair] = true;
  }
  if (sum != frequency_sum) return "frequencies do not sum to 256";
  if (record.frequency[0] == 0) return "symbol 0 of frequency 0";
  if ((record.sign_mask & ~signs_allowed) != 0) return "a sign without a symbol";
  if (sign_coded && (record.sign_mask & 0x8000) == 0) return "symbol 15 without its sign";
  return nullptr;
}

TableSet::Dimensions TableSet::Dimensions::of(const BlockShape& shape) {
  if (shape.is_opaque()) return {.dtype = shape.dtype, .opaque = true};
  return {.dtype = shape.dtype,
          .opaque = false,
          .layers = shape.layers,
          .channels_k = shape.channels(Side::k),
          .channels_v = shape.channels(Side::v)};
}

TableSet::TableSet(Dimensions dimensions, std::vector<TableRecord> records, ByteVector index)
    : dimensions_(dimensions),
      records_(std::move(records)),
      index_(std::move(index)),
      plans_(std::size_t{dimensions_.layers} * sides()) {
  for (const TableRecord& record : records_) {
    decode_tables_.push_back(decode_table_of(record));
    encode_tables_.push_back(encode_table_of(record));
    sign_coded_tables_ += record.sign_coded;
  }
  content_hash_ = xxh3(serialize());
}

ByteView TableSet::channel_tables(std::uint32_t substream) const {
  if (dimensions_.opaque) return {};
  const std::size_t k = dimensions_.channels_k, v = dimensions_.channels_v;
  const bool is_v = substream % sides() == 1;
  return ByteView(index_).subspan(substream / sides() * (k + v) + (is_v ? k : 0), is_v ? v : k);
}

ByteVector TableSet::serialize() const {
  TablesHeader header{};
  header.magic = tables_magic;
  header.version = tables_version;
  header.dtype = static_cast<std::uint8_t>(dimensions_.dtype);
  header.opaque = dimensions_.opaque ? 1 : 0;
  header.layers = dimensions_.layers;
  header.channels_k = dimensions_.channels_k;
  header.channels_v = dimensions_.channels_v;
  header.table_count = static_cast<std::uint16_t>(records_.size());
  const std::size_t records_bytes = records_.size() * sizeof(TableRecord);
  ByteVector bytes(sizeof header + records_bytes + index_.size());
  std::memcpy(bytes.data() + sizeof header, records_.data(), records_bytes);
  std::ranges::copy(index_,
                    bytes.begin() + static_cast<std::ptrdiff_t>(sizeof header + records_bytes));
  header.body_xxh3 = xxh3(ByteView(bytes).subspan(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<std::shared_ptr<const StaticTables>> StaticTables::parse(ByteView bytes) {
  TablesHeader header;
  if (bytes.size() < sizeof header) return corrupt("shorter than their header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (const char* fault = find_header_fault(header)) return corrupt(fault);
  if (header.version != tables_version) {
    return Error(ErrorKind::unsupported,
                 "static tables: version " + std::to_string(header.version) + " is not known");
  }
  const TableSet::Dimensions dimensions{.dtype = static_cast<DType>(header.dtype),
                                        .opaque = header.opaque != 0,
                                        .layers = header.layers,
                                        .channels_k = header.channels_k,
                                        .channels_v = header.channels_v};
  const ByteView body = bytes.subspan(sizeof header);
  const std::size_t records_bytes = header.table_count * sizeof(TableRecord);
  if (header.layers > 1024 || body.size() < records_bytes ||
      body.size() - records_bytes != dimensions.index_bytes()) {
    return corrupt("length does not fit the dimensions");
  }
  if (xxh3(body) != header.body_xxh3) return corrupt("checksum");

  std::vector<TableRecord> records(header.table_count);
  std::memcpy(records.data(), body.data(), records_bytes);
  for (const TableRecord& record : records) {
    if (const char* fault = find_fault(record, dimensions.dtype)) return corrupt(fault);
  }
  const auto raw_sign_first = [](const TableRecord& a, const TableRecord& b) {
    return a.sign_coded < b.sign_coded;
  };
  if (std::ranges::adjacent_find(records, raw_sign_first) != records.end()) {
    return corrupt("a table with coded signs after one without");
  }
  const ByteView index = body.subspan(records_bytes);
  for (const std::byte table : index) {
    if (std::to_integer<std::size_t>(table) >= records.size()) return corrupt("index of no table");
  }
  return std::shared_ptr<const StaticTables>(std::make_shared<TableSet>(
      dimensions, std::move(records), ByteVector(index.begin(), index.end())));
}

}  // namespace kvstrata::codec
