// Case A31: a "lossless" mode changed bits of NaN patterns and subnormals, unseen because nobody
// had tried all patterns. Compared as bytes, also with FTZ and DAZ set by the calling process.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/codec/round_trip.h"
#include "tests/codec/synthetic_kv.h"

using namespace kvstrata;
using namespace kvstrata::codec;
using namespace kvstrata::test;

namespace {

/// Sets flush-to-zero and denormals-are-zero while it lives, where the machine has them.
class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
  ~FlushToZero() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#else
  FlushToZero() {}
  ~FlushToZero() {}
#endif
};

/// All patterns of types up to 16 bits; for fp32 the special ones around each exponent's edges.
std::vector<std::uint32_t> all_patterns(DType dtype) {
  std::vector<std::uint32_t> patterns;
  if (dtype != DType::fp32) {
    for (std::uint32_t bits = 0; bits < 1U << (8 * bytes_per_scalar(dtype)); ++bits) {
      patterns.push_back(bits);
    }
    return patterns;
  }
  for (std::uint32_t top = 0; top < 512; ++top) {  // sign and exponent: NaN, infinity, subnormal
    for (const std::uint32_t mantissa : {0U, 1U, 2U, 0x3fffffU, 0x400000U, 0x400001U, 0x7fffffU}) {
      patterns.push_back(top << 23 | mantissa);
    }
  }
  return patterns;
}

enum class Order { rising, shuffled, sparse };

/// A block of `shape` filled with the patterns again and again, or synthetic KV with one scalar in
/// a thousand replaced by the next pattern.
ByteVector block_of_patterns(const BlockShape& shape, Order order) {
  std::vector<std::uint32_t> patterns = all_patterns(shape.dtype);
  if (order != Order::rising) std::ranges::shuffle(patterns, std::mt19937(7));
  ByteVector payload = synthetic_kv(shape, 1, 2);
  const std::size_t scalar_bytes = bytes_per_scalar(shape.dtype);
  const std::size_t stride = order == Order::sparse ? 1000 : 1;
  for (std::size_t i = 0; i * scalar_bytes < payload.size(); i += stride) {
    std::memcpy(payload.data() + i * scalar_bytes, &patterns[i / stride % patterns.size()],
                scalar_bytes);
  }
  return payload;
}

void check_patterns(DType dtype) {
  for (const Order order : {Order::rising, Order::shuffled, Order::sparse}) {
    const BlockShape shape = block_shape(dtype, 2, 4, 64, 256);
    const ByteVector payload = block_of_patterns(shape, order);
    const auto on_itself = fit_on(shape, payload);
    const auto on_kv = fit_on(shape, synthetic_kv(shape, 1, 3));
    round_trip(shape, on_itself.get(), payload);
    round_trip(shape, on_kv.get(), payload);
    round_trip(shape, nullptr, payload);
    const FlushToZero flush;
    const ByteVector frame = round_trip(shape, on_kv.get(), payload);
    if (order == Order::sparse) CHECK(inspect_frame(frame)->codec == CodecId::static_tables);
  }
}

}  // namespace

TEST_CASE("All 65,536 patterns of bf16 round-trip") {
  check_patterns(DType::bf16);
}
TEST_CASE("All 65,536 patterns of fp16 round-trip") {
  check_patterns(DType::fp16);
}
TEST_CASE("All 256 patterns of fp8 e4m3 round-trip") {
  check_patterns(DType::fp8_e4m3);
}
TEST_CASE("All 256 patterns of fp8 e5m2 round-trip") {
  check_patterns(DType::fp8_e5m2);
}
TEST_CASE("All 256 patterns of int8 round-trip") {
  check_patterns(DType::int8);
}
TEST_CASE("The special patterns of fp32 round-trip") {
  check_patterns(DType::fp32);
}
