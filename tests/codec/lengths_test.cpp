// Case A30: lengths that are no multiple of the scalar lost or changed their last bytes, and zeros,
// empty buffers and very short ones made frames that could not be decoded.
#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

/// Each kind of content at `bytes` bytes.
std::vector<ByteVector> contents(DType dtype, std::size_t bytes, const ByteVector& kv) {
  ByteVector equal(bytes, std::byte{0x3f}), ramp(bytes), noise(bytes);
  std::mt19937 random(static_cast<std::uint32_t>(bytes * 16 + static_cast<std::size_t>(dtype)));
  for (std::size_t i = 0; i < bytes; ++i) {
    ramp[i] = static_cast<std::byte>(i);
    noise[i] = static_cast<std::byte>(random());
  }
  return {ByteVector(bytes), equal, ramp, noise,
          ByteVector(kv.begin(), kv.begin() + static_cast<std::ptrdiff_t>(bytes))};
}

std::vector<std::size_t> all_lengths() {
  std::vector<std::size_t> lengths(1026);
  std::iota(lengths.begin(), lengths.end(), 0);
  lengths.insert(lengths.end(), {4095, 4096, 4097});
  return lengths;
}

/// Synthetic KV as an opaque value, token by token of 64 channels.
ByteVector opaque_kv(DType dtype) {
  return synthetic_kv(block_shape(dtype, 1, 1, 64, 128, "LSPTHC"), 1, 1);
}

void check_lengths(DType dtype) {
  const ByteVector kv = opaque_kv(dtype);
  const BlockShape fit_shape = BlockShape::opaque(dtype, kv.size());
  const auto tables = fit_on(fit_shape, kv);
  for (const std::size_t bytes : all_lengths()) {
    const BlockShape shape = BlockShape::opaque(dtype, bytes);
    for (const ByteVector& content : contents(dtype, bytes, kv)) {
      CAPTURE(bytes);
      const ByteVector frame = round_trip(shape, tables.get(), content);
      REQUIRE(frame.size() <= frame_bytes_max(shape));
    }
  }
}

}  // namespace

TEST_CASE("Every length of bytes round-trips within the bound: scalars of 1 byte") {
  check_lengths(DType::fp8_e4m3);
}
TEST_CASE("Every length of bytes round-trips within the bound: scalars of 2 bytes") {
  check_lengths(DType::bf16);
}
TEST_CASE("Every length of bytes round-trips within the bound: scalars of 4 bytes") {
  check_lengths(DType::fp32);
}

TEST_CASE("An empty value is a frame of its header alone") {
  const BlockShape shape = BlockShape::opaque(DType::bf16, 0);
  CHECK(round_trip(shape, nullptr, {}).size() == 64);
}

TEST_CASE("Pieces of an opaque value use the table that suits each, its tail is kept") {
  ByteVector value;
  for (const std::uint64_t model : {1, 2, 3}) {
    const BlockShape part = block_shape(DType::bf16, 1, 1, 64, 1024, "LSPTHC");
    const ByteVector kv = synthetic_kv(part, model, model);
    for (int copy = 0; copy < 4; ++copy) value.insert(value.end(), kv.begin(), kv.end());
  }
  value.push_back(std::byte{0x77});
  const BlockShape shape = BlockShape::opaque(DType::bf16, value.size());
  CHECK(shape.substreams() == 4);
  const ByteVector frame = round_trip(shape, fit_on(shape, value).get(), value);
  CHECK(inspect_frame(frame)->codec == CodecId::static_tables);
  CHECK(frame.size() * 4 < value.size() * 3);
}
