#include "codec/static_tables.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "codec/code_cost.h"
#include "kvstrata/checksum.h"
#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

const BlockShape shape = block_shape(DType::bf16, 2, 2, 16, 64);

ByteVector serialised() {
  return fit_on(shape, synthetic_kv(shape, 1, 2))->serialize();
}

/// Tables changed by `change` and summed again.
template <typename Change>
ByteVector with_change(Change&& change) {
  ByteVector bytes = serialised();
  TablesHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  TableRecord record;
  std::memcpy(&record, bytes.data() + sizeof header, sizeof record);
  change(header, record);
  std::memcpy(bytes.data() + sizeof header, &record, sizeof record);
  header.body_xxh3 = xxh3(ByteView(bytes).subspan(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

ErrorKind parse_kind(ByteView bytes) {
  const auto tables = StaticTables::parse(bytes);
  REQUIRE(!tables.ok());
  return tables.error().kind();
}

}  // namespace

TEST_CASE("Tables survive being serialised, with their hash") {
  const auto tables = fit_on(shape, synthetic_kv(shape, 1, 2));
  const ByteVector bytes = tables->serialize();
  CHECK(tables->content_hash() == hash_of(bytes));
  const auto parsed = StaticTables::parse(bytes);
  REQUIRE(parsed.ok());
  CHECK((*parsed)->serialize() == bytes);
  CHECK((*parsed)->content_hash() == tables->content_hash());
  const ByteVector payload = synthetic_kv(shape, 1, 5);
  CHECK(encode(shape, parsed->get(), payload) == encode(shape, tables.get(), payload));
}

TEST_CASE("A fit gives the same tables each time, whatever the order of calls") {
  const ByteVector first = serialised();
  fit_on(block_shape(DType::fp16, 1, 1, 8, 16), ByteVector(512));
  CHECK(serialised() == first);
}

TEST_CASE("Damaged tables are corrupt") {
  const ByteVector bytes = serialised();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    ByteVector changed = bytes;
    changed[at] ^= std::byte{0x21};
    const ErrorKind kind = parse_kind(changed);
    CHECK(kind == (at == 4 ? ErrorKind::unsupported : ErrorKind::corrupt));
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(parse_kind(ByteView(bytes).first(size)) == ErrorKind::corrupt);
  }
}

TEST_CASE("Tables that are summed but break a rule are corrupt") {
  const auto kind_with = [](auto change) { return parse_kind(with_change(change)); };
  using H = TablesHeader;
  using R = TableRecord;
  CHECK(kind_with([](H& h, R&) { h.layers = 0xffffffff; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H& h, R&) { h.channels_k = 0xffffffff; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H& h, R&) { h.table_count = 0; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H& h, R&) { h.table_count = 257; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H& h, R&) { h.opaque = 1; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H& h, R&) { h.dtype = 77; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) { ++r.frequency[0]; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) {
          std::swap(r.frequency[0], r.frequency[15]);
          r.frequency[0] = 0;
        }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) {
          r.key[1] = r.key[0];
          r.sign_mask = 0;
        }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) { r.key[15] = 1; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) { r.sign_coded ^= 1; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) { r.sign_mask ^= 0x8000; }) == ErrorKind::corrupt);
  CHECK(kind_with([](H&, R& r) { r.reserved = 1; }) == ErrorKind::corrupt);
}

TEST_CASE("Every table a fit can make is one that parse takes") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    const DType dtype = static_cast<DType>(1 + random() % 6);
    const ScalarFormat format = scalar_format(dtype);
    KeyCounts counts{};
    for (std::uint64_t i = 0; i < random() % 40; ++i) {
      const std::uint64_t sign = format.sign_bits == 0 ? 0 : random() % 2;
      counts[sign * 256 + random() % (1U << format.key_bits)] += random() >> (24 + random() % 40);
    }
    CHECK(find_fault(build_table(counts, format), dtype) == nullptr);
  }
}

TEST_CASE("A fit needs payloads of the shape") {
  CHECK(!StaticTables::fit(shape, {}).ok());
  const ByteVector small(10);
  const ByteView view(small);
  CHECK(!StaticTables::fit(shape, std::span(&view, 1)).ok());
  const ByteView empty;
  CHECK(!StaticTables::fit(BlockShape::opaque(DType::bf16, 0), std::span(&empty, 1)).ok());
}

TEST_CASE("Static frames of bf16 are within 0.08 bit a scalar of their tables' ideal code") {
  const BlockShape block = block_shape(DType::bf16, 4, 3, 64, 256);
  const auto tables = fit_on(block, synthetic_kv(block, 1, 2));
  const ByteVector payload = synthetic_kv(block, 1, 3);
  const auto& set = static_cast<const TableSet&>(*tables);
  std::vector<CodeCost> costs;
  for (const TableRecord& record : set.records()) costs.push_back(CodeCost::of(record));
  std::uint64_t ideal = 0, scalars = 0;
  for_each_scalar(
      block, [&](std::uint32_t s, std::uint32_t channel, std::uint32_t, std::uint64_t at) {
        const auto table = std::to_integer<std::size_t>(set.channel_tables(s)[channel]);
        const auto bits = load_le<std::uint16_t>(payload.data() + at);
        ideal += 7 * cost_one_bit + costs[table].of_bin[key_bin(scalar_format(DType::bf16), bits)];
        ++scalars;
      });
  const double ideal_bits =
      static_cast<double>(ideal) / cost_one_bit / static_cast<double>(scalars);
  const double bits = 8.0 * static_cast<double>(encode(block, tables.get(), payload).size()) /
                      static_cast<double>(scalars);
  MESSAGE(bits << " bits a scalar, ideal " << ideal_bits);
  CHECK(bits < ideal_bits + 0.08);
  CHECK(bits < 16 / 1.45);
}

TEST_CASE("Tables of one block serve other blocks of the model nearly as well as their own") {
  const BlockShape block = block_shape(DType::bf16, 2, 3, 64, 256);
  const ByteVector payload = synthetic_kv(block, 1, 3);
  const std::size_t own = encode(block, fit_on(block, payload).get(), payload).size();
  const auto other = fit_on(block, synthetic_kv(block, 1, 4));
  CHECK(encode(block, other.get(), payload).size() * 100 < own * 101);
}
